package main

import (
	"errors"
	"time"

	"github.com/Shopify/sarama"
	"headgate.test/lines"
)

// readAlone is what there was before groups, which this client has since v1.19 from Kafka 0.10.2 on: all partitions are
// read by one who asks nobody, and the offsets are committed.
func readAlone(in lines.Membership, count int, emit func(lines.Record) error) error {
	config, err := settings(in.Target)
	if err != nil {
		return err
	}
	config.Consumer.Offsets.CommitInterval = 50 * time.Millisecond
	kafka, err := sarama.NewClient([]string{in.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer kafka.Close()
	manager, err := sarama.NewOffsetManagerFromClient(in.Group, kafka)
	if err != nil {
		return err
	}
	managed, first, err := manage(manager, kafka, in.Topic)
	if err != nil {
		return errors.Join(err, manager.Close())
	}
	err = read(kafka, in.Topic, first, count, func(message *sarama.ConsumerMessage) error {
		managed[message.Partition].MarkOffset(message.Offset+1, "")
		return emit(received(message))
	})
	return errors.Join(err, commit(manager, managed))
}

// manage gives the first offset to read of each partition.
func manage(manager sarama.OffsetManager, kafka sarama.Client, topic string) (map[int32]sarama.PartitionOffsetManager, map[int32]int64, error) {
	managed, first := map[int32]sarama.PartitionOffsetManager{}, map[int32]int64{}
	partitions, err := kafka.Partitions(topic)
	if err != nil {
		return nil, nil, err
	}
	for _, partition := range partitions {
		if managed[partition], err = manager.ManagePartition(topic, partition); err != nil {
			return nil, nil, err
		}
		first[partition], _ = managed[partition].NextOffset()
	}
	return managed, first, nil
}

// commit commits what was marked: v1.10.1 in the first loop, v1.19.0 between the two.
func commit(manager sarama.OffsetManager, managed map[int32]sarama.PartitionOffsetManager) error {
	for _, one := range managed {
		one.AsyncClose()
	}
	err := manager.Close()
	for _, one := range managed {
		for failed := range one.Errors() {
			err = errors.Join(err, failed)
		}
	}
	return err
}
