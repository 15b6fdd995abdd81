package main

import (
	"context"
	"errors"
	"io"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"headgate.test/lines"
)

func (franz) Transact(to lines.Target, id, group string, next func() (lines.Transaction, error)) error {
	client, err := newClient(
		to,
		kgo.TransactionalID(id),
		kgo.DefaultProduceTopic(to.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for transaction, err := next(); ; transaction, err = next() {
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = transact(client, to.Topic, id, group, transaction)
		}
		if err != nil {
			return err
		}
	}
}

func transact(client *kgo.Client, topic, id, group string, transaction lines.Transaction) error {
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for _, record := range transaction.Records {
		records = append(records, toSend(record))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	if err := commitOffset(ctx, client, topic, id, group, transaction.Offset); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TransactionEndTry(transaction.Commit))
}

// commitOffset sends the requests that the client sends by itself only for what it consumed in a group.
func commitOffset(ctx context.Context, client *kgo.Client, topic, id, group string, offset int64) error {
	producerID, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, producerID, epoch, group
	added, err := add.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return err
	}
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	found, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	topics := kmsg.NewTxnOffsetCommitRequestTopic()
	topics.Topic, topics.TopicID = topic, found[topic].ID
	topics.Partitions = []kmsg.TxnOffsetCommitRequestTopicPartition{partition}
	commit := kmsg.NewTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = id, producerID, epoch, group
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{topics}
	committed, err := commit.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}
