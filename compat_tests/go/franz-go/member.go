package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"headgate.test/lines"
)

// In the protocol in which the broker assigns, a balancer stands for the broker's assignor: this one for "uniform".
var balancers = map[string][]kgo.GroupOpt{
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"sticky":             {kgo.Balancers(kgo.StickyBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"server":             {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
}

var resets = map[string]kgo.Offset{
	"earliest": kgo.NewOffset().AtStart(),
	"latest":   kgo.NewOffset().AtEnd(),
	"none":     kgo.NoResetOffset(),
}

// ownership is what a member is assigned, and the last record that it was given of each partition of it.
type ownership struct {
	mutex  sync.Mutex
	last   map[int32]*kgo.Record
	events lines.Events
}

func (owned *ownership) change(partitions []int32, isAssigned bool) {
	owned.mutex.Lock()
	defer owned.mutex.Unlock()
	if len(partitions) == 0 {
		return
	}
	for _, partition := range partitions {
		if isAssigned {
			owned.last[partition] = nil
		} else {
			delete(owned.last, partition)
		}
	}
	all := []int32{}
	for partition := range owned.last {
		all = append(all, partition)
	}
	owned.events.Owned(all)
}

func (owned *ownership) received(record *kgo.Record) {
	owned.mutex.Lock()
	defer owned.mutex.Unlock()
	if _, is := owned.last[record.Partition]; is {
		owned.last[record.Partition] = record
	}
	owned.events.Received(record.Partition, record.Offset)
}

func (owned *ownership) lastRecords() []*kgo.Record {
	owned.mutex.Lock()
	defer owned.mutex.Unlock()
	found := []*kgo.Record{}
	for _, record := range owned.last {
		if record != nil {
			found = append(found, record)
		}
	}
	return found
}

func (franz) Member(in lines.Membership, input lines.Input, events lines.Events) error {
	balancer, known := balancers[in.Assignor]
	if !known {
		return fmt.Errorf("unknown assignor %q", in.Assignor)
	}
	reset, known := resets[in.Reset]
	if !known {
		return fmt.Errorf("unknown reset %q", in.Reset)
	}
	owned := &ownership{last: map[int32]*kgo.Record{}, events: events}
	assigned := func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		owned.change(topics[in.Topic], true)
	}
	revoked := func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		owned.change(topics[in.Topic], false)
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(in.Group),
		kgo.ConsumeTopics(in.Topic),
		kgo.ConsumeResetOffset(reset),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(in.Session),
		kgo.HeartbeatInterval(lines.Heartbeat),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(revoked),
	}
	for _, option := range balancer {
		options = append(options, option)
	}
	if in.Instance != "" {
		options = append(options, kgo.InstanceID(in.Instance))
	}
	client, err := newClient(in.Target, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		select {
		case <-input.Stop:
			return nil
		case <-input.Commits:
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			events.Committed(client.CommitRecords(ctx, owned.lastRecords()...))
			cancel()
		default:
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			fetches := client.PollFetches(ctx)
			for record := range fetches.RecordsAll() {
				owned.received(record)
			}
			fetches.EachError(func(_ string, _ int32, err error) {
				if !errors.Is(err, context.DeadlineExceeded) {
					events.Failed(err)
				}
			})
			cancel()
		}
	}
}
