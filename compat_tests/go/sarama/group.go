package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"headgate.test/lines"
)

// claimed is a record and the session in which it was claimed.
type claimed struct {
	session sarama.ConsumerGroupSession
	message *sarama.ConsumerMessage
}

// claims hands on the records of every claim.
type claims chan claimed

func (claims) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (records claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case records <- claimed{session, message}:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (client) Group(in lines.Membership, count int, emit func(lines.Record) error) error {
	config, err := settings(in.Target)
	if err != nil {
		return err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = lines.ShortHeartbeat
	config.Consumer.Return.Errors = true
	group, err := sarama.NewConsumerGroup([]string{in.Bootstrap}, in.Group, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	records, ended := make(claims), make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = group.Consume(ctx, []string{in.Topic}, records)
		}
		ended <- err
	}()
	err = take(ctx, group, records, count, emit)
	cancel()
	return errors.Join(err, <-ended, group.Close())
}

// take emits so many records and commits the offsets after them.
func take(ctx context.Context, group sarama.ConsumerGroup, records claims, count int, emit func(lines.Record) error) error {
	for taken := 0; ; taken++ {
		select {
		case one := <-records:
			one.session.MarkMessage(one.message, "")
			if err := emit(received(one.message)); err != nil {
				return err
			}
			if taken+1 == count {
				// A failure is told to nobody here: whoever reads the offset finds it missing
				one.session.Commit()
				time.Sleep(lines.Stay)
				return nil
			}
		case err := <-group.Errors():
			return err
		case <-ctx.Done():
			return lines.Late(taken)
		}
	}
}
