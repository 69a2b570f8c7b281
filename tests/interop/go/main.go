// The everyday work by franz-go. Each piece prints a line of JSON with its facts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	count       = 40
	retentionMs = "3600000"
	timeMs      = 1_700_000_000_000
)

type facts map[string]any

type worker struct {
	address string
	ctx     context.Context
}

// must ends a piece of work with a panic after an error; run reports the error as its fact.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w worker) client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(w.address), kgo.FetchMaxWait(50*time.Millisecond))
	client, err := kgo.NewClient(options...)
	must(err)
	return client
}

func (w worker) admin() (*kadm.Client, func()) {
	admin := kadm.NewClient(w.client())
	return admin, admin.Close
}

func (w worker) create(topic string, partitions int32) {
	admin, end := w.admin()
	defer end()
	_, err := admin.CreateTopic(w.ctx, partitions, 1, nil, topic)
	must(err)
}

func values(form string) []string {
	found := make([]string, count)
	for n := range found {
		found[n] = fmt.Sprintf(form, n)
	}
	return found
}

// produce writes the values to partition 0 and returns their offsets once all are acknowledged.
func (w worker) produce(topic string, values []string, times []int64, options ...kgo.Opt) []int64 {
	options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond))
	client := w.client(options...)
	defer client.Close()
	records := make([]*kgo.Record, len(values))
	for n, value := range values {
		at := int64(timeMs + n)
		if times != nil {
			at = times[n]
		}
		number := strconv.Itoa(n)
		records[n] = &kgo.Record{
			Topic: topic, Key: []byte("k" + number), Value: []byte(value), Timestamp: time.UnixMilli(at),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(number)}},
		}
	}
	var offsets []int64
	for _, result := range client.ProduceSync(w.ctx, records...) {
		must(result.Err)
		offsets = append(offsets, result.Record.Offset)
	}
	return offsets
}

func (w worker) readRecords(client *kgo.Client, wanted int) []*kgo.Record {
	var found []*kgo.Record
	for len(found) < wanted {
		fetches := client.PollRecords(w.ctx, wanted-len(found))
		must(fetches.Err())
		found = append(found, fetches.Records()...)
	}
	return found
}

func (w worker) assigned(topic string, offset int64) *kgo.Client {
	at := kgo.NewOffset().At(offset)
	return w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: at}}))
}

func (w worker) member(group, topic string, options ...kgo.Opt) *kgo.Client {
	return w.client(append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100*time.Millisecond))...)
}

func (w worker) cluster() facts {
	admin, end := w.admin()
	defer end()
	found, err := admin.BrokerMetadata(w.ctx)
	must(err)
	hasController := false
	for _, id := range found.Brokers.NodeIDs() {
		hasController = hasController || id == found.Controller
	}
	return facts{"brokers": len(found.Brokers), "has_controller": hasController}
}

func (w worker) topics() facts {
	admin, end := w.admin()
	defer end()
	partitions := func() int {
		found, err := admin.ListTopics(w.ctx, "made")
		must(err)
		return len(found["made"].Partitions)
	}
	_, err := admin.CreateTopic(w.ctx, 3, 1, nil, "made")
	must(err)
	created := partitions()
	_, err = admin.CreateTopic(w.ctx, 1, 1, nil, "made")
	again := fmt.Sprint(err)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		again = "exists"
	}
	_, err = admin.UpdatePartitions(w.ctx, 5, "made")
	must(err)
	grown := partitions()
	_, err = admin.DeleteTopic(w.ctx, "made")
	must(err)
	left, err := admin.ListTopics(w.ctx)
	must(err)
	return facts{"created": created, "again": again, "grown": grown, "removed": !left.Has("made")}
}

func (w worker) configs() facts {
	w.create("configured", 1)
	admin, end := w.admin()
	defer end()
	value := func() string {
		found, err := admin.DescribeTopicConfigs(w.ctx, "configured")
		must(err)
		for _, config := range found[0].Configs {
			if config.Key == "retention.ms" {
				return config.MaybeValue()
			}
		}
		return "not there"
	}
	change := func(operation kadm.IncrementalOp, newValue string) {
		change := kadm.AlterConfig{Op: operation, Name: "retention.ms", Value: &newValue}
		responses, err := admin.AlterTopicConfigs(w.ctx, []kadm.AlterConfig{change}, "configured")
		must(err)
		must(responses[0].Err)
	}
	before := value()
	change(kadm.SetConfig, retentionMs)
	middle := value()
	change(kadm.DeleteConfig, "")
	return facts{"before": before, "set": middle, "after": value()}
}

func (w worker) codecs() facts {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	found := facts{}
	for name, codec := range codecs {
		topic := "codec-" + name
		w.create(topic, 1)
		written := values(strings.Repeat("the same again and again ", 9) + "%d") // this client does not compress a batch that would not become smaller
		w.produce(topic, written, nil, kgo.ProducerBatchCompression(codec))
		client := w.assigned(topic, 0)
		same := 0
		for n, record := range w.readRecords(client, count) {
			number := strconv.Itoa(n)
			header := record.Headers[0]
			if string(record.Value) == written[n] && string(record.Key) == "k"+number && header.Key == "n" &&
				string(header.Value) == number && record.Timestamp.UnixMilli() == int64(timeMs+n) {
				same++
			}
		}
		client.Close()
		found[name] = same
	}
	return found
}

func (w worker) idempotent() facts {
	w.create("numbered", 1)
	offsets := w.produce("numbered", values("%d"), nil) // this client's producers are idempotent by default
	inOrder := true
	for n, offset := range offsets {
		inOrder = inOrder && offset == int64(n)
	}
	return facts{"count": len(offsets), "is_in_order": inOrder}
}

func (w worker) assignment() facts {
	w.create("assigned", 1)
	w.produce("assigned", values("%d"), nil)
	client := w.assigned("assigned", 30)
	defer client.Close()
	found := w.readRecords(client, 10)
	first, err := strconv.Atoi(string(found[0].Value))
	must(err)
	return facts{"first": first, "count": len(found)}
}

func (w worker) times() facts {
	w.create("timed", 1)
	w.produce("timed", []string{"a", "b", "c"}, []int64{1000, 2000, 3000})
	admin, end := w.admin()
	defer end()
	only := func(listed kadm.ListedOffsets, err error) kadm.ListedOffset {
		must(err)
		found, _ := listed.Lookup("timed", 0)
		must(found.Err)
		return found
	}
	late := only(admin.ListOffsetsAfterMilli(w.ctx, 9000, "timed"))
	// If no record is that late, this client returns the end offset, without a timestamp.
	if late.Timestamp == -1 {
		late.Offset = -1
	}
	return facts{
		"earliest": only(admin.ListStartOffsets(w.ctx, "timed")).Offset,
		"latest":   only(admin.ListEndOffsets(w.ctx, "timed")).Offset,
		"at_1500":  only(admin.ListOffsetsAfterMilli(w.ctx, 1500, "timed")).Offset,
		"at_9000":  late.Offset,
	}
}

func (w worker) deletion() facts {
	w.create("deleted", 1)
	w.produce("deleted", values("%d"), nil)
	admin, end := w.admin()
	defer end()
	var wanted kadm.Offsets
	wanted.AddOffset("deleted", 0, 5, -1)
	responses, err := admin.DeleteRecords(w.ctx, wanted)
	must(err)
	found, _ := responses.Lookup("deleted", 0)
	must(found.Err)
	start := kgo.NewOffset().AtStart()
	client := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"deleted": {0: start}}))
	defer client.Close()
	first, err := strconv.Atoi(string(w.readRecords(client, 1)[0].Value))
	must(err)
	return facts{"begins_at": found.LowWatermark, "first": first}
}

// sharer returns a group member and the number of its partitions, which changes with rebalances.
func (w worker) sharer() (*kgo.Client, *atomic.Int64) {
	var size atomic.Int64
	change := func(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			size.Add(sign * int64(len(changed["shared"])))
		}
	}
	return w.member("sharers", "shared", kgo.OnPartitionsAssigned(change(1)),
		kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1))), &size
}

// untilSizes waits until each member has the wanted number of partitions, or for the time limit;
// it returns the numbers.
func (w worker) untilSizes(wanted int64, sizes ...*atomic.Int64) []int64 {
	for {
		found := make([]int64, len(sizes))
		isDone := true
		for n, size := range sizes {
			found[n] = size.Load()
			isDone = isDone && found[n] == wanted
		}
		if isDone || w.ctx.Err() != nil {
			return found
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w worker) rebalance() facts {
	w.create("shared", 4)
	first, firstSize := w.sharer()
	defer first.Close()
	alone := w.untilSizes(4, firstSize)
	second, secondSize := w.sharer()
	together := w.untilSizes(2, firstSize, secondSize)
	second.Close()
	again := w.untilSizes(4, firstSize)
	return facts{"alone": alone, "together": together, "alone_again": again}
}

func (w worker) readAndCommit(topic, group string) {
	w.create(topic, 1)
	w.produce(topic, values("%d"), nil)
	member := w.member(group, topic)
	defer member.Close()
	must(member.CommitRecords(w.ctx, w.readRecords(member, 20)...))
}

func (w worker) committed(admin *kadm.Client, group, topic string) int64 {
	offsets, err := admin.FetchOffsets(w.ctx, group)
	must(err)
	found, _ := offsets.Lookup(topic, 0)
	return found.At
}

func (w worker) resume() facts {
	w.readAndCommit("resumed", "resumers")
	second := w.member("resumers", "resumed")
	defer second.Close()
	next := w.readRecords(second, 1)[0]
	admin, end := w.admin()
	defer end()
	return facts{"committed": w.committed(admin, "resumers", "resumed"), "resumed_at": next.Offset}
}

func (w worker) groups() facts {
	w.readAndCommit("grouped", "administered")
	admin, end := w.admin()
	defer end()
	has := func() bool {
		found, err := admin.ListGroups(w.ctx)
		must(err)
		_, known := found["administered"]
		return known
	}
	listed := has()
	described, err := admin.DescribeGroups(w.ctx, "administered")
	must(err)
	before := w.committed(admin, "administered", "grouped")
	var wanted kadm.Offsets
	wanted.AddOffset("grouped", 0, 5, -1)
	must(admin.CommitAllOffsets(w.ctx, "administered", wanted))
	after := w.committed(admin, "administered", "grouped")
	_, err = admin.DeleteGroup(w.ctx, "administered")
	must(err)
	return facts{
		"listed": listed, "state": described["administered"].State, "committed": before,
		"reset_to": after, "removed": !has(),
	}
}

// run does a piece of work within a time limit.
func run(work func(worker) facts, address string, limit time.Duration) (found facts) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer func() {
		if failure := recover(); failure != nil {
			found = facts{"error": fmt.Sprint(failure)}
		}
	}()
	return work(worker{address, ctx})
}

func main() {
	pieces := []struct {
		name string
		work func(worker) facts
	}{
		{"cluster", worker.cluster}, {"topics", worker.topics}, {"configs", worker.configs},
		{"codecs", worker.codecs}, {"idempotent", worker.idempotent}, {"assignment", worker.assignment},
		{"times", worker.times}, {"deletion", worker.deletion}, {"rebalance", worker.rebalance}, {"resume", worker.resume},
		{"groups", worker.groups},
	}
	seconds, err := strconv.Atoi(os.Args[2])
	must(err)
	limit := time.Duration(seconds) * time.Second
	if strings.HasSuffix(os.Args[1], ".json") {
		tryLogins(os.Args[1], limit)
		return
	}
	out := json.NewEncoder(os.Stdout)
	for _, piece := range pieces {
		facts := run(piece.work, os.Args[1], limit)
		must(out.Encode([]any{piece.name, facts}))
	}
}
