package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"
	"headgate.test/lines"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

var resets = map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}

// handler is what sarama calls for each generation that the member is in: one after another.
type handler struct {
	topic   string
	events  lines.Events
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
}

func (member *handler) Setup(session sarama.ConsumerGroupSession) error {
	member.begin(session)
	member.events.Owned(session.Claims()[member.topic])
	return nil
}

func (member *handler) Cleanup(sarama.ConsumerGroupSession) error {
	member.begin(nil)
	member.events.Owned(nil)
	return nil
}

func (member *handler) begin(session sarama.ConsumerGroupSession) {
	member.mutex.Lock()
	defer member.mutex.Unlock()
	member.session = session
}

func (member *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		member.events.Received(message.Partition, message.Offset)
	}
	return nil
}

// commit is told of no failure: those come as errors of the group.
func (member *handler) commit() error {
	member.mutex.Lock()
	defer member.mutex.Unlock()
	if member.session == nil {
		return errors.New("the group is rebalancing")
	}
	member.session.Commit()
	return nil
}

func (client) Member(in lines.Membership, input lines.Input, events lines.Events) error {
	config, err := settings(in.Target)
	if err != nil {
		return err
	}
	strategy, known := strategies[in.Assignor]
	if !known {
		return fmt.Errorf("unknown assignor %q", in.Assignor)
	}
	reset, known := resets[in.Reset]
	if !known {
		return fmt.Errorf("unknown reset %q", in.Reset)
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.Session.Timeout = in.Session
	config.Consumer.Group.Heartbeat.Interval = lines.Heartbeat
	config.Consumer.Group.InstanceId = in.Instance
	config.Consumer.Offsets.Initial = reset
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup([]string{in.Bootstrap}, in.Group, config)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			events.Failed(err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	member := &handler{topic: in.Topic, events: events}
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = group.Consume(ctx, []string{in.Topic}, member)
		}
		ended <- err
	}()
	for {
		select {
		case <-input.Commits:
			events.Committed(member.commit())
		case err := <-ended:
			cancel()
			return errors.Join(err, group.Close())
		case <-input.Stop:
			cancel()
			return errors.Join(<-ended, group.Close())
		}
	}
}
