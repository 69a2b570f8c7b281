// etcd, and a client that measures it.
//
//	etcd serve [FLAGS OF ETCD]
//	etcd load ENDPOINTS CLIENTS COUNT SECONDS
//
// load: each client puts 100 bytes, again and again until acknowledged, then the next: COUNT puts in
// total, or as many as fit into SECONDS. Prints the total seconds, then the microseconds of each put;
// and "ready" to standard error once it begins.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

const keys = 1000

// How long a put waits before it is sent again; an idle cluster needs a thousandth of it.
const patience = 200 * time.Millisecond

func main() {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		etcdmain.Main(append(os.Args[:1], os.Args[2:]...))
	} else if len(os.Args) == 6 && os.Args[1] == "load" {
		load(strings.Split(os.Args[2], ","), number(3), int64(number(4)), float64(number(5)))
	} else {
		fail("usage: etcd serve FLAGS | load ENDPOINTS CLIENTS COUNT SECONDS")
	}
}

func number(argument int) int {
	value, err := strconv.Atoi(os.Args[argument])
	if err != nil {
		fail(err)
	}
	return value
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func load(endpoints []string, clients int, count int64, seconds float64) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 30 * time.Second})
	if err != nil {
		fail(err)
	}
	value := strings.Repeat("x", 100)
	if _, err := client.Get(context.Background(), "k"); err != nil {
		fail(err)
	}
	fmt.Fprintln(os.Stderr, "ready")
	var next int64
	took := make([][]time.Duration, clients)
	start := time.Now()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i := range took {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(end) {
				number := atomic.AddInt64(&next, 1)
				if number > count {
					return
				}
				begin := time.Now()
				for !put(client, fmt.Sprintf("k%d", number%keys), value) {
				}
				took[i] = append(took[i], time.Since(begin))
			}
		}()
	}
	group.Wait()
	fmt.Printf("%.6f\n", time.Since(start).Seconds())
	for _, each := range took {
		for _, duration := range each {
			fmt.Println(duration.Microseconds())
		}
	}
}

func put(client *clientv3.Client, key, value string) bool {
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := client.Put(limit, key, value)
	return err == nil
}
