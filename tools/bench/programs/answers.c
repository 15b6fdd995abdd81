/* Reads Kafka answers far enough to find every error code, and for Fetch the next offset.
   Layouts: message definitions of Apache Kafka 3.9 and 4.1, ProduceResponse 0-13, FetchResponse 0-18, MetadataResponse 1-13,
   OffsetCommitResponse 3-10, OffsetFetchResponse 8-9, HeartbeatResponse 1-4, CreateTopicsResponse 7, DeleteTopicsResponse 5,
   DescribeConfigsResponse 4, ConsumerGroupHeartbeatResponse 0-1, InitProducerIdResponse 0-5, AddPartitionsToTxnResponse 0-3,
   AddOffsetsToTxnResponse 0-4, TxnOffsetCommitResponse 0-5, EndTxnResponse 0-5. */
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cursor {
    const uint8_t *at, *end;
    const char *name;
    bool flexible;
    int16_t *retriable; /* where a retriable error is left; NULL: any error is a failure */
};

static const uint8_t *take(struct cursor *cursor, uint64_t length) {
    if ((uint64_t)(cursor->end - cursor->at) < length)
        die("%s answer ends too early: %" PRIu64 " bytes wanted, %td left", cursor->name, length,
            cursor->end - cursor->at);
    const uint8_t *start = cursor->at;
    cursor->at += length;
    return start;
}

static uint64_t big_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

static int16_t take_int16(struct cursor *c) { return (int16_t)big_endian(take(c, 2), 2); }
static int32_t take_int32(struct cursor *c) { return (int32_t)big_endian(take(c, 4), 4); }
static int64_t take_int64(struct cursor *c) { return (int64_t)big_endian(take(c, 8), 8); }

static uint64_t take_varint(struct cursor *cursor) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *take(cursor, 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    die("%s answer: a varint longer than five bytes", cursor->name);
}

/* Length of an array, string or bytes field: -1 is null. */
static int64_t take_length(struct cursor *cursor, int fixed_width) {
    if (cursor->flexible) return (int64_t)take_varint(cursor) - 1;
    return fixed_width == 2 ? take_int16(cursor) : take_int32(cursor);
}

static void skip_string(struct cursor *cursor) {
    int64_t length = take_length(cursor, 2);
    if (length > 0) take(cursor, (uint64_t)length);
}

static int64_t take_count(struct cursor *cursor) { return take_length(cursor, 4); }

static void skip_tags(struct cursor *cursor) {
    if (!cursor->flexible) return;
    for (uint64_t left = take_varint(cursor); left > 0; left--) {
        take_varint(cursor);
        take(cursor, take_varint(cursor));
    }
}

/* Loading, or not here yet (14 to 16); the coordinator of a batch was not reached (19); the last transaction is being ended (51). */
static bool is_retriable(int16_t code) { return (code >= 14 && code <= 16) || code == 19 || code == 51; }

static void check_error(const struct cursor *cursor, const char *where, int16_t code) {
    if (cursor->retriable && is_retriable(code)) *cursor->retriable = code;
    else if (code != 0) die("%s answer: error code %d in %s", cursor->name, code, where);
}

static void check_throttle(struct cursor *cursor) {
    int32_t milliseconds = take_int32(cursor);
    if (milliseconds != 0) die("%s answer: throttled for %d ms; the figure would mean nothing", cursor->name, milliseconds);
}

static void check_end(const struct cursor *cursor) {
    if (cursor->at != cursor->end) die("%s answer: %td bytes too many", cursor->name, cursor->end - cursor->at);
}

static void check_produced_partition(int version, struct cursor *c) {
    take_int32(c);
    int16_t error = take_int16(c);
    check_error(c, "partition", error);
    int64_t base_offset = take_int64(c);
    if (base_offset < 0 && !error) die("Produce answer: base offset %" PRId64, base_offset);
    if (version >= 2) take_int64(c); /* log append time */
    if (version >= 5) take_int64(c);
    if (version >= 8) {
        int64_t errors = take_count(c);
        if (errors > 0) die("Produce answer: %" PRId64 " record errors", errors);
        skip_string(c);
    }
    skip_tags(c);
}

static uint64_t check_produce(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    int version = checker->settings->version;
    (void)consumer;
    int64_t topics = take_count(c);
    if (topics != 1) die("Produce answer: %" PRId64 " topics, 1 was sent", topics);
    if (version >= 13) take(c, 16);
    else skip_string(c);
    int64_t partitions = take_count(c);
    if (partitions < 1 || (partitions > 1 && !checker->settings->many_partitions))
        die("Produce answer: %" PRId64 " partitions, 1 was sent", partitions);
    for (; partitions > 0; partitions--) check_produced_partition(version, c);
    skip_tags(c);
    if (version >= 1) check_throttle(c);
    skip_tags(c);
    return 0;
}

/* A message of magic 0 or 1: offset at 0, size of the rest at 8, magic at 16, attributes at 17. The offset of a wrapper is
   that of the last message in it. */
static void check_message(struct consumer *consumer, const uint8_t *message) {
    int64_t offset = (int64_t)big_endian(message, 8);
    bool is_wrapper = (message[17] & 7) != 0;
    if (message[16] > 1 || offset < consumer->next_offset || (!is_wrapper && offset != consumer->next_offset))
        die("Fetch answer: magic %d at offset %" PRId64 ", offset %" PRId64 " wanted", message[16], offset, consumer->next_offset);
    consumer->next_offset = offset + 1;
}

#define MAX_ABORTED 1024

/* The aborted transactions in a partition of an answer: `count` entries of producer id and first offset, `stride` bytes apart. */
struct aborted {
    const uint8_t *entries;
    int64_t count;
    size_t stride;
    bool ended[MAX_ABORTED];
};

static void take_aborted(const struct checker *checker, struct aborted *aborted, struct cursor *c) {
    *aborted = (struct aborted){.count = take_count(c), .stride = c->flexible ? 17 : 16};
    if (aborted->count <= 0) return;
    if (!checker->settings->committed || aborted->count > MAX_ABORTED)
        die("Fetch answer: %" PRId64 " aborted transactions", aborted->count);
    aborted->entries = take(c, (uint64_t)aborted->count * aborted->stride);
}

static int64_t find_aborted(const struct aborted *aborted, const uint8_t *batch) {
    for (int64_t i = 0; i < aborted->count; i++) {
        const uint8_t *entry = aborted->entries + (size_t)i * aborted->stride;
        if (!aborted->ended[i] && memcmp(entry, batch + 43, 8) == 0 && big_endian(entry + 8, 8) <= big_endian(batch, 8)) return i;
    }
    return -1;
}

/* Whether a reader of committed records passes the batch on. Bit 4 of the attributes is that of a transaction, bit 5 that of a
   marker, whose key of four bytes ends with its kind, 0 for an abort; all varints before it have one byte. */
static bool is_delivered(const struct checker *checker, struct aborted *aborted, const uint8_t *batch, size_t length) {
    int64_t at = find_aborted(aborted, batch);
    if (batch[22] & 0x20) {
        if (length < 70) die("Fetch answer: a marker of %zu bytes", length);
        if (at >= 0 && batch[69] == 0) aborted->ended[at] = true;
        return false;
    }
    bool is_other = checker->batch && (length != checker->batch_length || memcmp(batch + 61, checker->batch + 61, length - 61) != 0);
    if (checker->batch && is_other != (at >= 0))
        die("Fetch answer: the batch at offset %" PRIu64 " was %s", big_endian(batch, 8), is_other ? "aborted" : "committed");
    return at < 0;
}

/* One stored batch: 61 bytes of header; base offset at 0, length of the rest at 8, magic at 16, last offset delta at 23.
   Everything from the magic on is the producer's, unchanged by the broker. */
static void check_batch(const struct checker *checker, struct consumer *consumer, const uint8_t *batch, size_t length) {
    if (length < 61 || batch[16] != 2) die("Fetch answer: a batch of %zu bytes, magic %d", length, batch[16]);
    int64_t base = (int64_t)big_endian(batch, 8), last = base + (int32_t)big_endian(batch + 23, 4);
    if (consumer->next_offset < base || consumer->next_offset > last)
        die("Fetch answer: offset %" PRId64 " wanted, the batch has %" PRId64 " to %" PRId64, consumer->next_offset, base, last);
    if (checker->batch && !checker->settings->committed && (length != checker->batch_length || memcmp(batch + 16, checker->batch + 16, length - 16) != 0))
        die("Fetch answer: the batch at offset %" PRId64 " is not the one that was produced", base);
    consumer->next_offset = last + 1;
}

/* Returns the bytes of complete batches, of committed ones where only those count: the last one of an answer may be cut. */
static uint64_t walk_batches(
    const struct checker *checker, struct consumer *consumer, struct aborted *aborted, const uint8_t *records, size_t length) {
    size_t at = 0;
    uint64_t left_out = 0;
    while (length - at >= 17) {
        size_t batch = 12 + (size_t)big_endian(records + at + 8, 4);
        if (batch > length - at) break;
        if (checker->settings->version < 4) check_message(consumer, records + at);
        else check_batch(checker, consumer, records + at, batch);
        if (checker->settings->committed && !is_delivered(checker, aborted, records + at, batch)) left_out += batch;
        at += batch;
    }
    if (at == 0) die("Fetch answer: %zu bytes without one whole batch", length);
    return at - left_out;
}

static uint64_t check_fetch_partition(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    int version = checker->settings->version;
    take_int32(c);
    check_error(c, "partition", take_int16(c));
    consumer->high_watermark = take_int64(c);
    if (version >= 4) take_int64(c); /* last stable offset */
    if (version >= 5) take_int64(c);
    struct aborted aborted = {.count = 0};
    if (version >= 4) take_aborted(checker, &aborted, c);
    if (version >= 11) take_int32(c);
    int64_t length = take_length(c, 4);
    uint64_t whole = 0;
    if (length > 0) {
        const uint8_t *records = take(c, (uint64_t)length);
        whole = walk_batches(checker, consumer, &aborted, records, (size_t)length);
    }
    skip_tags(c);
    return whole;
}

static void check_session(struct consumer *consumer, int32_t session_id) {
    if (consumer->session_epoch < 0) return;
    if (session_id == 0) die("Fetch answer: the broker keeps no session");
    if (consumer->session_id != 0 && consumer->session_id != session_id)
        die("Fetch answer: session %d became %d", consumer->session_id, session_id);
    consumer->session_id = session_id;
}

static uint64_t check_fetch(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    int version = checker->settings->version;
    uint64_t whole = 0;
    int64_t first_offset = consumer->next_offset;
    if (version >= 1) check_throttle(c);
    if (version >= 7) {
        check_error(c, "answer", take_int16(c));
        check_session(consumer, take_int32(c));
    }
    for (int64_t topics = take_count(c); topics > 0; topics--) {
        if (version >= 13) take(c, 16);
        else skip_string(c);
        for (int64_t partitions = take_count(c); partitions > 0; partitions--)
            whole += check_fetch_partition(checker, consumer, c);
        skip_tags(c);
    }
    skip_tags(c);
    if (checker->settings->record_bytes) whole = checker->settings->record_bytes * (uint64_t)(consumer->next_offset - first_offset);
    if (checker->settings->wrap) {
        if (consumer->next_offset == first_offset)
            die("Fetch answer: nothing at offset %" PRId64 ", high watermark %" PRId64, consumer->next_offset, consumer->high_watermark);
        if (consumer->next_offset >= consumer->high_watermark) consumer->next_offset = 0;
    }
    return whole;
}

static void skip_int32_array(struct cursor *c) {
    int64_t count = take_count(c);
    if (count > 0) take(c, 4 * (uint64_t)count);
}

static void check_metadata_partition(struct cursor *c, int version) {
    check_error(c, "partition", take_int16(c));
    take(c, version >= 7 ? 12 : 8); /* index, leader, leader epoch */
    skip_int32_array(c);
    skip_int32_array(c);
    if (version >= 5) skip_int32_array(c);
    skip_tags(c);
}

static void check_metadata_topic(struct cursor *c, int version) {
    check_error(c, "topic", take_int16(c));
    skip_string(c);
    if (version >= 10) take(c, 16);
    take(c, 1);
    int64_t partitions = take_count(c);
    if (partitions < 1) die("Metadata answer: a topic without partitions");
    for (; partitions > 0; partitions--) check_metadata_partition(c, version);
    if (version >= 8) take_int32(c);
    skip_tags(c);
}

static uint64_t check_metadata(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    int version = checker->settings->version;
    (void)consumer;
    if (version >= 3) check_throttle(c);
    int64_t brokers = take_count(c);
    if (brokers < 1) die("Metadata answer: no broker");
    for (; brokers > 0; brokers--) {
        take_int32(c);
        skip_string(c);
        take_int32(c);
        skip_string(c);
        skip_tags(c);
    }
    if (version >= 2) skip_string(c);
    take_int32(c);
    int64_t topics = take_count(c);
    if (topics < 1) die("Metadata answer: no topic");
    for (; topics > 0; topics--) check_metadata_topic(c, version);
    if (version >= 8 && version <= 10) take_int32(c);
    if (version >= 13) check_error(c, "answer", take_int16(c));
    skip_tags(c);
    return 0;
}

static uint64_t check_offset_commit(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    check_throttle(c);
    int64_t topics = take_count(c);
    if (topics != 1) die("OffsetCommit answer: %" PRId64 " topics, 1 was sent", topics);
    if (checker->settings->version >= 10) take(c, 16);
    else skip_string(c);
    int64_t partitions = take_count(c);
    if (partitions < 1) die("OffsetCommit answer: no partition");
    for (; partitions > 0; partitions--) {
        take_int32(c);
        check_error(c, "partition", take_int16(c));
        skip_tags(c);
    }
    skip_tags(c);
    skip_tags(c);
    consumer->next_offset++;
    return 0;
}

/* Heartbeat and AddOffsetsToTxn. */
static uint64_t check_heartbeat(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker, (void)consumer;
    check_throttle(c);
    check_error(c, "answer", take_int16(c));
    skip_tags(c);
    return 0;
}

/* Of a member that has what it is to have: a new epoch or assignment would have to be taken, and is another load. */
static uint64_t check_consumer_group_heartbeat(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker;
    check_throttle(c);
    check_error(c, "answer", take_int16(c));
    skip_string(c); /* message */
    skip_string(c); /* member */
    int32_t epoch = take_int32(c);
    if (consumer->session_id && consumer->session_id != epoch)
        die("ConsumerGroupHeartbeat answer: epoch %d became %d", consumer->session_id, epoch);
    consumer->session_id = epoch;
    take_int32(c); /* interval */
    if (*take(c, 1) != 0xff) die("ConsumerGroupHeartbeat answer: an assignment where nothing changed");
    skip_tags(c);
    return 0;
}

static uint64_t check_offset_fetch(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker, (void)consumer;
    check_throttle(c);
    for (int64_t groups = take_count(c); groups > 0; groups--) {
        skip_string(c);
        for (int64_t topics = take_count(c); topics > 0; topics--) {
            skip_string(c);
            for (int64_t partitions = take_count(c); partitions > 0; partitions--) {
                take_int32(c);
                if (take_int64(c) < 0) die("OffsetFetch answer: a partition without the offset that was committed");
                take_int32(c); /* leader epoch */
                skip_string(c); /* metadata */
                check_error(c, "partition", take_int16(c));
                skip_tags(c);
            }
            skip_tags(c);
        }
        check_error(c, "group", take_int16(c));
        skip_tags(c);
    }
    skip_tags(c);
    return 0;
}

static uint64_t check_create_topics(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker, (void)consumer;
    check_throttle(c);
    for (int64_t topics = take_count(c); topics > 0; topics--) {
        skip_string(c);
        take(c, 16);
        check_error(c, "topic", take_int16(c));
        skip_string(c); /* message */
        take(c, 6);     /* partitions and replicas */
        for (int64_t configs = take_count(c); configs > 0; configs--) {
            skip_string(c);
            skip_string(c);
            take(c, 3); /* read only, source, sensitive */
            skip_tags(c);
        }
        skip_tags(c);
    }
    skip_tags(c);
    return 0;
}

static uint64_t check_delete_topics(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker, (void)consumer;
    check_throttle(c);
    for (int64_t topics = take_count(c); topics > 0; topics--) {
        skip_string(c);
        check_error(c, "topic", take_int16(c));
        skip_string(c); /* message */
        skip_tags(c);
    }
    skip_tags(c);
    return 0;
}

static void skip_config(struct cursor *c) {
    skip_string(c);
    skip_string(c);
    take(c, 3); /* read only, source, sensitive */
    for (int64_t synonyms = take_count(c); synonyms > 0; synonyms--) {
        skip_string(c);
        skip_string(c);
        take(c, 1); /* source */
        skip_tags(c);
    }
    take(c, 1);     /* type */
    skip_string(c); /* documentation */
    skip_tags(c);
}

static uint64_t check_describe_configs(const struct checker *checker, struct consumer *consumer, struct cursor *c) {
    (void)checker, (void)consumer;
    check_throttle(c);
    for (int64_t resources = take_count(c); resources > 0; resources--) {
        check_error(c, "resource", take_int16(c));
        skip_string(c); /* message */
        take(c, 1);     /* type */
        skip_string(c);
        int64_t configs = take_count(c);
        if (configs < 1) die("DescribeConfigs answer: a resource without a setting");
        for (; configs > 0; configs--) skip_config(c);
        skip_tags(c);
    }
    skip_tags(c);
    return 0;
}

static uint64_t check_init_producer_id(const struct checker *checker, struct consumer *producer, struct cursor *c) {
    (void)checker;
    check_throttle(c);
    check_error(c, "answer", take_int16(c));
    producer->producer_id = take_int64(c);
    producer->producer_epoch = take_int16(c);
    skip_tags(c);
    return 0;
}

/* AddPartitionsToTxn and TxnOffsetCommit: an error for each partition. */
static uint64_t check_partitions(const struct checker *checker, struct consumer *producer, struct cursor *c) {
    (void)checker, (void)producer;
    check_throttle(c);
    int64_t topics = take_count(c);
    if (topics < 1) die("%s answer: no topic", c->name);
    for (; topics > 0; topics--) {
        skip_string(c);
        for (int64_t partitions = take_count(c); partitions > 0; partitions--) {
            take_int32(c);
            check_error(c, "partition", take_int16(c));
            skip_tags(c);
        }
        skip_tags(c);
    }
    skip_tags(c);
    return 0;
}

/* From version 5 on with the id and epoch of the next transaction. */
static uint64_t check_end_txn(const struct checker *checker, struct consumer *producer, struct cursor *c) {
    check_throttle(c);
    int16_t error = take_int16(c);
    check_error(c, "answer", error);
    if (checker->settings->version >= 5) {
        int64_t producer_id = take_int64(c);
        int16_t producer_epoch = take_int16(c);
        if (!error) producer->producer_id = producer_id, producer->producer_epoch = producer_epoch;
    }
    skip_tags(c);
    return 0;
}

struct answer {
    int api, flexible_since;
    const char *name;
    uint64_t (*check)(const struct checker *checker, struct consumer *consumer, struct cursor *c);
};

static const struct answer answers[] = {
    {API_PRODUCE, 9, "Produce", check_produce},
    {API_FETCH, 12, "Fetch", check_fetch},
    {API_METADATA, 9, "Metadata", check_metadata},
    {API_OFFSET_COMMIT, 8, "OffsetCommit", check_offset_commit},
    {API_OFFSET_FETCH, 6, "OffsetFetch", check_offset_fetch},
    {API_HEARTBEAT, 4, "Heartbeat", check_heartbeat},
    {API_CREATE_TOPICS, 5, "CreateTopics", check_create_topics},
    {API_DELETE_TOPICS, 4, "DeleteTopics", check_delete_topics},
    {API_INIT_PRODUCER_ID, 2, "InitProducerId", check_init_producer_id},
    {API_ADD_PARTITIONS_TO_TXN, 3, "AddPartitionsToTxn", check_partitions},
    {API_ADD_OFFSETS_TO_TXN, 3, "AddOffsetsToTxn", check_heartbeat},
    {API_END_TXN, 3, "EndTxn", check_end_txn},
    {API_TXN_OFFSET_COMMIT, 3, "TxnOffsetCommit", check_partitions},
    {API_DESCRIBE_CONFIGS, 4, "DescribeConfigs", check_describe_configs},
    {API_CONSUMER_GROUP_HEARTBEAT, 0, "ConsumerGroupHeartbeat", check_consumer_group_heartbeat},
};

static const struct answer *answer_of(int api) {
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i].api == api) return &answers[i];
    return NULL;
}

bool can_check(int api) { return answer_of(api) != NULL; }

uint64_t check_answer(const struct checker *checker, struct consumer *consumer, const uint8_t *body, size_t length) {
    const struct answer *answer = answer_of(checker->settings->api);
    struct cursor cursor = {.at = body, .end = body + length, .name = answer->name};
    cursor.flexible = checker->settings->version >= answer->flexible_since;
    if (checker->settings->retries) cursor.retriable = &consumer->retriable_error;
    skip_tags(&cursor); /* of the response header, version 1 */
    uint64_t bytes = answer->check(checker, consumer, &cursor);
    check_end(&cursor);
    return bytes;
}
