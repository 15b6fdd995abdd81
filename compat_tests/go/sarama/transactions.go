package main

import (
	"errors"
	"io"

	"github.com/IBM/sarama"
	"headgate.test/lines"
)

func (client) Transact(to lines.Target, id, group string, next func() (lines.Transaction, error)) error {
	config, err := producerSettings(to)
	if err != nil {
		return err
	}
	config.Producer.Transaction.ID = id
	producer, err := sarama.NewSyncProducer([]string{to.Bootstrap}, config)
	if err != nil {
		return err
	}
	for transaction, err := next(); ; transaction, err = next() {
		if errors.Is(err, io.EOF) {
			return producer.Close()
		}
		if err == nil {
			err = transact(producer, to.Topic, group, transaction)
		}
		if err != nil {
			return errors.Join(err, producer.Close())
		}
	}
}

func transact(producer sarama.SyncProducer, topic, group string, transaction lines.Transaction) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, record := range transaction.Records {
		messages = append(messages, toSend(topic, record))
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	// It sends the offsets just before it commits, and never where it aborts
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Offset: transaction.Offset, LeaderEpoch: -1}}}
	if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
		return err
	}
	if transaction.Commit {
		return producer.CommitTxn()
	}
	return producer.AbortTxn()
}
