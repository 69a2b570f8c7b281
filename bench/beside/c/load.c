/* A client on librdkafka that is faster than the measured broker.
 *
 *   load produce BROKER TOPIC COUNT SIZE [KEY=VALUE ...]
 *   load consume BROKER TOPIC COUNT [KEY=VALUE ...]
 *   load first   BROKER TOPIC GROUP [KEY=VALUE ...]
 *   load pace    BROKER TOPIC COUNT SIZE RATE [KEY=VALUE ...]
 *
 * KEY=VALUE are settings of librdkafka. Prints "RECORDS SECONDS". produce: from the first record
 * sent to the last one acknowledged; the partitions take turns. consume: from the first record
 * received to the last, of all partitions; prints also the ids of the brokers that sent them.
 * first: from creating a consumer in a new group to its first record (0 RECORDS: none within 20
 * seconds). pace: RATE records a second; prints also the microseconds from the time when a record was
 * due to its acknowledgement, at p50, p95, p99 and p99.9.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 1000, WAIT_MS = 60000, MOST_BROKERS = 64 };

static char reason[512];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what, const char *why) {
  fprintf(stderr, "load: %s: %s\n", what, why);
  exit(1);
}

static rd_kafka_conf_t *settings(const char *broker, int count, char **pairs) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "bootstrap.servers", broker, reason, sizeof reason);
  for (int i = 0; i < count; i++) {
    char *equals = strchr(pairs[i], '=');
    if (!equals) fail(pairs[i], "not KEY=VALUE");
    *equals = 0;
    if (rd_kafka_conf_set(conf, pairs[i], equals + 1, reason, sizeof reason) != RD_KAFKA_CONF_OK)
      fail(pairs[i], reason);
  }
  return conf;
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
  rd_kafka_t *rk = rd_kafka_new(type, conf, reason, sizeof reason);
  if (!rk) fail("no client", reason);
  return rk;
}

/* Creates a topic handle and waits for its leaders, so that the lookup is not measured. */
static rd_kafka_topic_t *known_topic(rd_kafka_t *rk, const char *name, int *partitions) {
  rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
  const struct rd_kafka_metadata *metadata;
  rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, topic, &metadata, WAIT_MS);
  if (error) fail(name, rd_kafka_err2str(error));
  *partitions = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  if (!*partitions) fail(name, "has no partitions");
  return topic;
}

static int delivered(rd_kafka_queue_t *reports, int wait_ms) {
  rd_kafka_event_t *event = rd_kafka_queue_poll(reports, wait_ms);
  const rd_kafka_message_t *message;
  int count = 0;
  if (!event) return 0;
  while ((message = rd_kafka_event_message_next(event))) {
    if (message->err) fail("not delivered", rd_kafka_err2str(message->err));
    count++;
  }
  rd_kafka_event_destroy(event);
  return count;
}

static void produce(const char *broker, const char *name, long count, size_t size, int n, char **kv) {
  rd_kafka_conf_t *conf = settings(broker, n, kv);
  rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
  rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
  int partitions, next = 0;
  rd_kafka_topic_t *topic = known_topic(rk, name, &partitions);
  rd_kafka_queue_t *reports = rd_kafka_queue_get_main(rk);
  rd_kafka_message_t *messages = calloc(BATCH, sizeof *messages);
  char *payload = malloc(size);
  memset(payload, 'x', size);
  long sent = 0, acknowledged = 0;
  double start = now();
  while (acknowledged < count) {
    int want = count - sent < BATCH ? (int)(count - sent) : BATCH;
    for (int i = 0; i < want; i++) messages[i] = (rd_kafka_message_t){.payload = payload, .len = size};
    int taken = want ? rd_kafka_produce_batch(topic, next, 0, messages, want) : 0;
    next = (next + 1) % partitions;
    sent += taken;
    acknowledged += delivered(reports, taken < want || sent == count ? 100 : 0);
    if (now() - start > 300) fail("produce", "no end after 300 s");
  }
  printf("%ld %.6f\n", count, now() - start);
}

static int ascending(const void *a, const void *b) {
  float left = *(const float *)a, right = *(const float *)b;
  return (left > right) - (left < right);
}

/* Waits for no acknowledgement: a broker that is late makes later records wait, and that counts. */
static void pace(const char *broker, const char *name, long count, size_t size, double rate, int n,
                 char **kv) {
  static const double percents[] = {50, 95, 99, 99.9};
  rd_kafka_conf_t *conf = settings(broker, n, kv);
  rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
  rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
  int partitions;
  rd_kafka_topic_t *topic = known_topic(rk, name, &partitions);
  rd_kafka_queue_t *reports = rd_kafka_queue_get_main(rk);
  char *payload = malloc(size);
  memset(payload, 'x', size);
  float *took_us = malloc(count * sizeof *took_us);
  long sent = 0, acknowledged = 0;
  double start = now();
  while (acknowledged < count) {
    for (double at = now(); sent < count && start + sent / rate <= at; sent++)
      if (rd_kafka_produce(topic, sent % partitions, 0, payload, size, NULL, 0, (void *)(sent + 1)))
        break; /* the queue is full */
    rd_kafka_event_t *event = rd_kafka_queue_poll(reports, sent == count ? 100 : 0);
    const rd_kafka_message_t *message;
    double at = now();
    while (event && (message = rd_kafka_event_message_next(event))) {
      if (message->err) fail("not delivered", rd_kafka_err2str(message->err));
      took_us[acknowledged++] = (at - start - ((long)message->_private - 1) / rate) * 1e6;
    }
    if (event) rd_kafka_event_destroy(event);
    else if (sent < count) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    if (at - start > 300) fail("pace", "no end after 300 s");
  }
  double seconds = now() - start;
  qsort(took_us, count, sizeof *took_us, ascending);
  printf("%ld %.6f", count, seconds);
  for (int i = 0; i < 4; i++) printf(" %.1f", took_us[(long)(count * percents[i] / 100)]);
  printf("\n");
}

static void consume(const char *broker, const char *name, long count, int n, char **kv) {
  rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, settings(broker, n, kv));
  int partitions, is_sender[MOST_BROKERS] = {0};
  rd_kafka_topic_t *topic = known_topic(rk, name, &partitions);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
  rd_kafka_message_t **messages = calloc(BATCH, sizeof *messages);
  long came = 0;
  double start = 0;
  for (int i = 0; i < partitions; i++)
    if (rd_kafka_consume_start_queue(topic, i, RD_KAFKA_OFFSET_BEGINNING, queue))
      fail(name, "can't be consumed");
  while (came < count) {
    /* it waits for as many records as requested: never request more than there are */
    size_t want = !came ? 1 : count - came < BATCH ? count - came : BATCH;
    ssize_t got = rd_kafka_consume_batch_queue(queue, WAIT_MS, messages, want);
    if (got <= 0) fail(name, "no record came");
    for (ssize_t i = 0; i < got; i++) {
      int sender = rd_kafka_message_broker_id(messages[i]);
      if (sender >= 0 && sender < MOST_BROKERS) is_sender[sender] = 1;
      if (!messages[i]->err) came++;
      else if (messages[i]->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        fail(name, rd_kafka_message_errstr(messages[i]));
      rd_kafka_message_destroy(messages[i]);
    }
    if (!start && came) start = now();
  }
  printf("%ld %.6f", came - 1, now() - start);
  for (int i = 0; i < MOST_BROKERS; i++)
    if (is_sender[i]) printf(" %d", i);
  printf("\n");
}

static void first(const char *broker, const char *name, const char *group, int n, char **kv) {
  double start = now();
  rd_kafka_conf_t *conf = settings(broker, n, kv);
  rd_kafka_conf_set(conf, "group.id", group, reason, sizeof reason);
  rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", reason, sizeof reason);
  rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, conf);
  rd_kafka_poll_set_consumer(rk);
  rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(topics, name, RD_KAFKA_PARTITION_UA);
  if (rd_kafka_subscribe(rk, topics)) fail(name, "can't be subscribed to");
  int came = 0;
  while (!came && now() - start < 20) {
    rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, 10);
    if (!message) continue;
    if (message->err) fprintf(stderr, "load: %s\n", rd_kafka_message_errstr(message));
    came = !message->err;
    rd_kafka_message_destroy(message);
  }
  printf("%d %.6f\n", came, now() - start);
  fflush(stdout);
  rd_kafka_consumer_close(rk);
}

int main(int argc, char **argv) {
  const char *what = argc > 4 ? argv[1] : "";
  if (!strcmp(what, "produce") && argc > 5)
    produce(argv[2], argv[3], atol(argv[4]), atol(argv[5]), argc - 6, argv + 6);
  else if (!strcmp(what, "pace") && argc > 6)
    pace(argv[2], argv[3], atol(argv[4]), atol(argv[5]), atof(argv[6]), argc - 7, argv + 7);
  else if (!strcmp(what, "consume"))
    consume(argv[2], argv[3], atol(argv[4]), argc - 5, argv + 5);
  else if (!strcmp(what, "first"))
    first(argv[2], argv[3], argv[4], argc - 5, argv + 5);
  else
    fail("usage", "produce | consume | first | pace BROKER TOPIC ...");
  fflush(stdout);
  _Exit(0); /* without librdkafka's slow shutdown, which is not measured */
}
