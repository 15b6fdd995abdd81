package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"headgate.test/lines"
)

func (franz) Read(from lines.Target, count int, emit func(lines.Record) error) error {
	client, err := newClient(from, fromTheStart(from)...)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = take(client, count, emit)
	return err
}

func (franz) Group(in lines.Membership, count int, emit func(lines.Record) error) error {
	options := append(
		fromTheStart(in.Target),
		kgo.ConsumerGroup(in.Group),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(lines.ShortHeartbeat),
	)
	client, err := newClient(in.Target, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	last, err := take(client, count, emit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	err = client.CommitRecords(ctx, last...)
	time.Sleep(lines.Stay)
	return err
}

func fromTheStart(from lines.Target) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeTopics(from.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

// take emits so many records and returns the last of each partition.
func take(client *kgo.Client, count int, emit func(lines.Record) error) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	last := map[int32]*kgo.Record{}
	for taken := 0; taken < count; {
		fetches := client.PollRecords(ctx, count-taken)
		if ctx.Err() != nil {
			return nil, lines.Late(taken)
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for record := range fetches.RecordsAll() {
			taken++
			last[record.Partition] = record
			if err := emit(received(record)); err != nil {
				return nil, err
			}
		}
	}
	return slices.Collect(maps.Values(last)), nil
}
