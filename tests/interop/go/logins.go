// Logins of franz-go: each way to get in of a file of JSON. Prints a line of JSON with the outcome of each.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const loginTopic = "logins"

type login struct {
	Name, Address, Ca, Certificate, Key, Mechanism, User, Password string
}

func (it login) mechanism() sasl.Mechanism {
	switch it.Mechanism {
	case "PLAIN":
		return plain.Auth{User: it.User, Pass: it.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: it.User, Pass: it.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: it.User, Pass: it.Password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: it.Password}.AsMechanism()
}

func (it login) options() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(it.Address), kgo.RequestRetries(0), kgo.RecordRetries(0)}
	if it.Mechanism != "" {
		options = append(options, kgo.SASL(it.mechanism()))
	}
	if it.Ca == "" {
		return options
	}
	text, err := os.ReadFile(it.Ca)
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if it.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(it.Certificate, it.Key)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return append(options, kgo.DialTLSConfig(config))
}

// try writes a record and reads the first one.
func (it login) try(ctx context.Context) error {
	producer, err := kgo.NewClient(it.options()...)
	must(err)
	defer producer.Close()
	if err := producer.Ping(ctx); err != nil {
		return err
	}
	record := &kgo.Record{Topic: loginTopic, Value: []byte("value")}
	if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	start := map[string]map[int32]kgo.Offset{loginTopic: {0: kgo.NewOffset().AtStart()}}
	consumer, err := kgo.NewClient(append(it.options(), kgo.ConsumePartitions(start))...)
	must(err)
	defer consumer.Close()
	return consumer.PollRecords(ctx, 1).Err()
}

func tryLogins(path string, limit time.Duration) {
	text, err := os.ReadFile(path)
	must(err)
	var logins []login
	must(json.Unmarshal(text, &logins))
	out := json.NewEncoder(os.Stdout)
	for _, it := range logins {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		outcome := "in"
		if err := it.try(ctx); err != nil {
			outcome = err.Error()
		}
		cancel()
		must(out.Encode([]string{it.Name, outcome}))
	}
}
