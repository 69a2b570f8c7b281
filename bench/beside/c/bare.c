/* The least that any broker must do: receive batches, write them and respond, or send its file.
 *
 *   bare PORT FILE [FOLLOWERS]
 *
 * It shows what the clients and the machine allow, for the comparison of Kafka and kraftlog; it has
 * no other use. All topics are the same single partition; creating a topic empties it. Batches are
 * written to FILE as they arrive, even in part, and acknowledged when they are complete. As in a
 * broker, FILE is append-only. Nothing is validated, indexed on disk or synced. A fetch at the end
 * waits for data without a timeout. An invalid request closes the connection.
 *
 * With FOLLOWERS it is the leader of that many processes of bare_follower.c, with replica ids from
 * 0 on: a batch is acknowledged, and sent to consumers, when all of them have fetched beyond it.
 * Then no topic can be created after the first batch, as the followers would keep the old batches.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3, API_VERSIONS = 18 };
enum { CREATE_TOPICS = 19, INIT_PRODUCER_ID = 22 };

/* One version of each API, the oldest that clients accept. librdkafka writes the current batch
 * format only if Produce 3 is supported, and then uses its newest version, 7. Others use 9. */
static const struct served {
  int key, oldest, newest;
} SERVED[] = {
    {PRODUCE, 3, 9},      {FETCH, 4, 4},         {LIST_OFFSETS, 1, 1},     {METADATA, 4, 4},
    {API_VERSIONS, 0, 4}, {CREATE_TOPICS, 2, 2}, {INIT_PRODUCER_ID, 0, 1},
};
enum { SERVED_COUNT = sizeof SERVED / sizeof *SERVED, PRODUCE_PLAIN = 7, PRODUCE_FLEXIBLE = 9 };

/* Small enough that received data stays in the CPU cache until it is written. */
enum { IN_SIZE = 1 << 20, OUT_SIZE = 1 << 18, MOST_NAME = 255, MOST_RESPONSE = 1024 };
/* The size of a Produce request up to the header of its batch. */
enum { HEAD_SIZE = 1024, BATCH_HEAD = 61, LAST_DELTA_AT = 23 };
/* Writes to preallocated blocks take a third less time. */
enum { RESERVED_AHEAD = 64 << 20 };
enum { SMALL_PIECE = 1024, MOST_PIECES = IN_SIZE / SMALL_PIECE };
enum { MOST_CONNECTIONS = 256, EVENTS = 64 };
enum { MOST_FOLLOWERS = 8, MOST_HELD = 1 << 14 };

/* A response that is sent once the followers have this offset. */
struct held {
  int64_t offset;
  uint64_t end; /* of the response, counted from the first byte of the connection */
};

struct connection {
  int fd;
  uint32_t watched;
  int waits;                /* for data; its fetch is the first request in `in` */
  size_t filled;            /* bytes in `in` */
  size_t to_write, to_skip; /* of the current Produce request */
  size_t sent, ready, end;  /* in `out`: bytes after `ready` are sent once the batch is written */
  size_t response;           /* the start of the last response in `out` */
  uint64_t dropped;         /* bytes sent and removed from the front of `out` so far */
  struct held held[MOST_HELD];
  unsigned first_held, held_count;
  off_t file_at;
  size_t file_left; /* to be sent from the file after `ready` */
  char in[IN_SIZE], out[OUT_SIZE];
};

struct reader {
  const char *at, *end;
  int is_bad;
};

struct text {
  const char *at;
  size_t size;
};

static struct connection *connections[MOST_CONNECTIONS];
static int poll_fd, log_fd, port;

/* The offset and position of each batch, and then those of the end of the log. */
static struct batch {
  int64_t offset;
  off_t position;
} *batches;
static size_t batch_count, batch_room;
static struct connection *producing;

/* The offset of each follower's last fetch: it has written everything before. */
static int64_t follower_ends[MOST_FOLLOWERS];
static int follower_count;

/* This turn's input for the file, and its position there. */
static struct iovec pieces[MOST_PIECES];
static int piece_count;
static off_t write_at, reserved_to;

static void fail(const char *what) {
  fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* ---- reading requests ---- */

static int64_t number(struct reader *r, int bytes) {
  uint64_t value = 0;
  if (r->end - r->at < bytes) return r->is_bad = 1, 0;
  for (int i = 0; i < bytes; i++) value = value << 8 | (uint8_t)*r->at++;
  int unused = 64 - 8 * bytes;
  return (int64_t)(value << unused) >> unused;
}

static int64_t varint(struct reader *r) {
  int64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    int64_t byte = number(r, 1);
    value |= (byte & 0x7f) << shift;
    if (byte >= 0) return value;
  }
  return r->is_bad = 1, 0;
}

/* A length is a number, or in flexible versions a varint of length + 1; null is -1. */
static int64_t length(struct reader *r, int bytes, int is_flexible) {
  return is_flexible ? varint(r) - 1 : number(r, bytes);
}

static struct text string(struct reader *r, int is_flexible) {
  int64_t size = length(r, 2, is_flexible);
  if (size < 0) size = 0;
  if (r->end - r->at < size || size > MOST_NAME) return r->is_bad = 1, (struct text){0};
  struct text found = {r->at, size};
  r->at += size;
  return found;
}

/* ---- writing responses ---- */

static void put(struct connection *c, int64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--) c->out[c->end++] = value >> (8 * i);
}

static void put_string(struct connection *c, struct text text, int is_flexible) {
  if (is_flexible) { /* a varint of one or two bytes */
    size_t size = text.size + 1;
    if (size > 0x7f) put(c, size | 0x80, 1), size >>= 7;
    put(c, size, 1);
  } else
    put(c, text.size, 2);
  memcpy(c->out + c->end, text.at, text.size);
  c->end += text.size;
}

static void begin_response(struct connection *c, int correlation_id) {
  c->response = c->end;
  put(c, 0, 4);
  put(c, correlation_id, 4);
}

/* Adds bytes of the file to the response. */
static void end_response(struct connection *c, size_t more) {
  uint32_t size = htonl(c->end - c->response - 4 + more);
  memcpy(c->out + c->response, &size, 4);
}

/* ---- the log ---- */

static void write_pieces(void) {
  size_t size = 0;
  for (int i = 0; i < piece_count; i++) size += pieces[i].iov_len;
  while (write_at + (off_t)size > reserved_to) {
    fallocate(log_fd, FALLOC_FL_KEEP_SIZE, reserved_to, RESERVED_AHEAD);
    reserved_to += RESERVED_AHEAD;
  }
  if (size && pwritev(log_fd, pieces, piece_count, write_at) != (ssize_t)size) fail("not written");
  write_at += size;
  piece_count = 0;
}

static void empty_log(void) {
  if (!batch_count) return;
  if (follower_count) errno = EBUSY, fail("followers have the old batches");
  write_pieces();
  if (ftruncate(log_fd, 0)) fail("the file can't be emptied");
  batch_count = write_at = reserved_to = 0;
  batches[0] = (struct batch){0, 0};
}

/* A small piece is joined with the previous one, which is faster than a separate piece. */
static void add_piece(char *at, size_t size) {
  struct iovec *last = pieces + piece_count - 1;
  if (size > SMALL_PIECE || !piece_count)
    pieces[piece_count++] = (struct iovec){at, size};
  else {
    memmove((char *)last->iov_base + last->iov_len, at, size);
    last->iov_len += size;
  }
}

/* Assigns the batch's offset and the new log end, which is valid once the batch is complete. */
static void assign_offset(char *batch, size_t size) {
  uint32_t last_delta;
  memcpy(&last_delta, batch + LAST_DELTA_AT, 4);
  struct batch end = batches[batch_count];
  uint64_t offset = htobe64(end.offset);
  memcpy(batch, &offset, 8);
  if (batch_count + 2 > batch_room) {
    batch_room = batch_room * 2 + 1024;
    if (!(batches = realloc(batches, batch_room * sizeof *batches))) fail("no memory");
  }
  batches[batch_count + 1] =
      (struct batch){end.offset + ntohl(last_delta) + 1, end.position + (off_t)size};
}

/* ---- followers ---- */

static int64_t high_watermark(void) {
  int64_t least = batches[batch_count].offset;
  for (int i = 0; i < follower_count; i++)
    if (follower_ends[i] < least) least = follower_ends[i];
  return least;
}

/* Makes the response of a complete batch wait for the followers. */
static void hold(struct connection *c) {
  if (c->held_count == MOST_HELD) errno = ENOBUFS, fail("too many requests in flight");
  c->held[(c->first_held + c->held_count++) % MOST_HELD] =
      (struct held){batches[batch_count].offset, c->dropped + c->end};
}

/* Makes the responses up to this offset ready to be sent; returns whether there was one. */
static int release(struct connection *c, int64_t up_to) {
  int has_released = 0;
  for (; c->held_count && c->held[c->first_held].offset <= up_to; c->held_count--) {
    c->ready = c->held[c->first_held].end - c->dropped;
    c->first_held = (c->first_held + 1) % MOST_HELD;
    has_released = 1;
  }
  return has_released;
}

/* ---- requests ---- */

static struct text topic_and_partition(struct reader *r, int is_flexible) {
  length(r, 4, is_flexible);
  struct text topic = string(r, is_flexible);
  length(r, 4, is_flexible);
  number(r, 4);
  return topic;
}

static void put_topic_and_partition(struct connection *c, struct text topic, int is_flexible) {
  put(c, 1 + is_flexible, is_flexible ? 1 : 4);
  put_string(c, topic, is_flexible);
  put(c, 1 + is_flexible, is_flexible ? 1 : 4);
  put(c, 0, 4);
  put(c, 0, 2); /* no error */
}

/* Reads the request up to its records, which are written as they arrive; prepares the response. */
static void produce(struct connection *c, struct reader *r, int version, size_t rest) {
  int flexible = version == PRODUCE_FLEXIBLE, is_known = flexible || version == PRODUCE_PLAIN;
  const char *begin = r->at;
  if (flexible) number(r, 1); /* no tags */
  string(r, flexible);        /* no transaction */
  int wants_response = number(r, 2) != 0;
  number(r, 4);
  struct text topic = topic_and_partition(r, flexible);
  int64_t size = length(r, 4, flexible);
  rest -= r->at - begin;
  r->is_bad |= !is_known || !wants_response || size < BATCH_HEAD || size > (int64_t)rest;
  r->is_bad |= r->end - r->at < BATCH_HEAD;
  if (r->is_bad) return;
  if (producing) errno = EBUSY, fail("two connections produce at once");
  producing = c;
  c->to_write = size;
  c->to_skip = rest - size;
  int64_t offset = batches[batch_count].offset;
  assign_offset((char *)r->at, size);
  if (flexible) put(c, 0, 1);
  put_topic_and_partition(c, topic, flexible);
  put(c, offset, 8);
  put(c, -1, 8);              /* no log append time */
  put(c, 0, 8);               /* log start offset */
  if (flexible) put(c, 1, 1); /* no errors of single records */
  if (flexible) put(c, 0, 3); /* no message, no tags */
  put(c, 0, 4);
  if (flexible) put(c, 0, 1);
}

/* As many complete batches as fit, at least one; no response at the end of the log, which for
 * consumers is what the followers have. */
static size_t fetch(struct connection *c, struct reader *r) {
  int64_t replica = number(r, 4);
  number(r, 4);
  number(r, 4);
  int64_t most = number(r, 4);
  number(r, 1);
  struct text topic = topic_and_partition(r, 0);
  int64_t offset = number(r, 8), most_of_partition = number(r, 4);
  if (most_of_partition < most) most = most_of_partition;
  r->is_bad |= replica >= follower_count;
  if (replica >= 0 && !r->is_bad) follower_ends[replica] = offset;
  int64_t log_end = replica < 0 ? high_watermark() : batches[batch_count].offset;
  c->waits = offset >= log_end;
  if (c->waits || r->is_bad) return 0;
  size_t first = 0, end = batch_count;
  while (end - first > 1) {
    size_t middle = (first + end) / 2;
    if (batches[middle].offset <= offset) first = middle;
    else end = middle;
  }
  for (end = first + 1; end < batch_count; end++)
    if (batches[end + 1].position - batches[first].position > most ||
        batches[end + 1].offset > log_end)
      break;
  c->file_at = batches[first].position;
  c->file_left = batches[end].position - c->file_at;
  put(c, 0, 4);
  put_topic_and_partition(c, topic, 0);
  put(c, log_end, 8);
  put(c, log_end, 8);
  put(c, -1, 4); /* no transactions */
  put(c, c->file_left, 4);
  return c->file_left;
}

static void list_offsets(struct connection *c, struct reader *r) {
  number(r, 4);
  struct text topic = topic_and_partition(r, 0);
  int is_beginning = number(r, 8) == -2;
  put_topic_and_partition(c, topic, 0);
  put(c, -1, 8);
  put(c, is_beginning ? 0 : batches[batch_count].offset, 8);
}

static void metadata(struct connection *c, struct reader *r) {
  struct text host = {"127.0.0.1", 9};
  put(c, 0, 4);
  put(c, 1, 4); /* one broker, of id 0 */
  put(c, 0, 4);
  put_string(c, host, 0);
  put(c, port, 4);
  put(c, -1, 2); /* no rack */
  put(c, -1, 2); /* no cluster id */
  put(c, 0, 4);  /* controller id */
  int count = number(r, 4) > 0; /* these clients request one topic or none */
  put(c, count, 4);
  if (!count) return;
  put(c, 0, 2);
  put_string(c, string(r, 0), 0);
  put(c, 0, 1); /* not internal */
  put(c, 1, 4); /* one partition: no error, index 0, leader 0, replicas [0], ISR [0] */
  put(c, 0, 2);
  put(c, 0, 4 + 4);
  for (int i = 0; i < 2; i++) put(c, 1, 4), put(c, 0, 4);
}

static void api_versions(struct connection *c) {
  put(c, 0, 2);
  put(c, SERVED_COUNT + 1, 1);
  for (const struct served *api = SERVED; api < SERVED + SERVED_COUNT; api++) {
    put(c, api->key, 2);
    put(c, api->oldest, 2);
    put(c, api->newest, 2);
    put(c, 0, 1);
  }
  put(c, 0, 4 + 1);
}

static void create_topic(struct connection *c, struct reader *r) {
  empty_log();
  number(r, 4);
  put(c, 0, 4);
  put(c, 1, 4);
  put_string(c, string(r, 0), 0);
  put(c, 0, 2);
  put(c, -1, 2); /* no message */
}

static void init_producer_id(struct connection *c) {
  static int64_t last_id;
  put(c, 0, 4 + 2);
  put(c, ++last_id, 8);
  put(c, 0, 2);
}

/* Handles the next request in the input. Returns the number of bytes used, 0 if it is incomplete,
 * or -1 if it is invalid. */
static ssize_t handle_request(struct connection *c, char *at, size_t size) {
  struct reader r = {at, at + size, 0};
  size_t whole = 4 + (uint32_t)number(&r, 4), more = 0;
  if (size < whole && size < HEAD_SIZE) return 0;
  if (size > whole) r.end = at + whole;
  int key = number(&r, 2), version = number(&r, 2), correlation_id = number(&r, 4);
  string(&r, 0); /* client id */
  if (key != PRODUCE && size < whole) return whole > IN_SIZE ? -1 : 0;
  begin_response(c, correlation_id);
  if (key == PRODUCE) produce(c, &r, version, whole - (r.at - at));
  else if (key == FETCH) more = fetch(c, &r);
  else if (key == LIST_OFFSETS) list_offsets(c, &r);
  else if (key == METADATA) metadata(c, &r);
  else if (key == API_VERSIONS && version >= 3) api_versions(c);
  else if (key == CREATE_TOPICS) create_topic(c, &r);
  else if (key == INIT_PRODUCER_ID) init_producer_id(c);
  else return -1;
  if (r.is_bad) return -1;
  if (c->waits) return c->end = c->response, 0;
  end_response(c, more);
  if (key != PRODUCE) c->ready = c->end;
  return key == PRODUCE ? r.at - at : (ssize_t)whole;
}

/* ---- connections ---- */

static void take_piece(struct connection *c, char *at, size_t size) {
  size_t written = size < c->to_write ? size : c->to_write;
  if (written) add_piece(at, written);
  c->to_write -= written;
  c->to_skip -= size - written;
  if (c->to_write + c->to_skip) return;
  batch_count++;
  producing = NULL;
  if (follower_count) hold(c);
  else c->ready = c->end;
}

/* Handles the input and writes its batches; returns 0 if it is invalid. It pauses while the file is
 * being sent, as the next response follows it. */
static int handle_input(struct connection *c) {
  size_t used = 0;
  ssize_t size = 1;
  c->waits = 0;
  while (size > 0 && used < c->filled && !c->file_left && c->end < OUT_SIZE - MOST_RESPONSE) {
    size_t left = c->filled - used, coming = c->to_write + c->to_skip;
    if (coming) take_piece(c, c->in + used, size = left < coming ? left : coming);
    else size = left < 4 ? 0 : handle_request(c, c->in + used, left);
    if (size > 0) used += size;
  }
  write_pieces();
  memmove(c->in, c->in + used, c->filled -= used);
  return size >= 0;
}

/* Sends as much as the connection accepts; returns -1 if it is closed. */
static int send_ready(struct connection *c) {
  while (c->sent < c->ready || c->file_left) {
    int more = c->file_left ? MSG_MORE : 0;
    ssize_t size = c->sent < c->ready
                       ? send(c->fd, c->out + c->sent, c->ready - c->sent, MSG_NOSIGNAL | more)
                       : sendfile(c->fd, log_fd, &c->file_at, c->file_left);
    if (size <= 0) return size < 0 && errno == EAGAIN ? 0 : -1;
    if (c->sent < c->ready) c->sent += size;
    else c->file_left -= size;
  }
  memmove(c->out, c->out + c->sent, c->end -= c->sent);
  c->dropped += c->sent;
  c->ready -= c->sent;
  c->sent = 0;
  return 1;
}

static void close_connection(struct connection *c) {
  if (producing == c) producing = NULL, write_at = batches[batch_count].position;
  connections[c->fd] = NULL;
  close(c->fd);
  free(c);
}

static void watch(struct connection *c, uint32_t events) {
  struct epoll_event event = {.events = events, .data.fd = c->fd};
  if (c->watched != events) epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &event);
  c->watched = events;
}

/* Handles requests until the input is empty or the connection is full. */
static void serve(struct connection *c) {
  size_t before;
  int is_sent;
  do {
    before = c->filled;
    if (!handle_input(c) || (is_sent = send_ready(c)) < 0) return close_connection(c);
  } while (is_sent && c->filled && c->filled < before);
  watch(c, !is_sent ? EPOLLOUT : c->filled < IN_SIZE ? EPOLLIN : 0);
}

/* Serves the fetches that wait for data, and sends the responses that waited for followers. */
static void wake_waiting(void) {
  static size_t batches_seen;
  static int64_t acknowledged;
  while (batches_seen != batch_count || acknowledged != high_watermark()) {
    batches_seen = batch_count;
    acknowledged = high_watermark();
    for (int fd = 0; fd < MOST_CONNECTIONS; fd++) {
      struct connection *c = connections[fd];
      if (c && (c->waits || release(c, acknowledged))) serve(c);
    }
  }
}

static void turn(struct connection *c, uint32_t events) {
  if (events & EPOLLOUT) {
    int is_sent = send_ready(c);
    if (is_sent < 0) return close_connection(c);
    if (!is_sent) return;
  } else {
    ssize_t size = recv(c->fd, c->in + c->filled, IN_SIZE - c->filled, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return close_connection(c);
    c->filled += size;
  }
  serve(c);
  wake_waiting();
}

static void accept_connection(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
  struct connection *c = calloc(1, sizeof *c);
  if (fd < 0 || fd >= MOST_CONNECTIONS || !c) fail("no connection");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  c->fd = fd;
  c->watched = EPOLLIN;
  connections[fd] = c;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int listen_at(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
    fail("can't listen");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &event);
  return listener;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL: a client may have left */
  if (argc < 3 || argc > 4) fail("usage: bare PORT FILE [FOLLOWERS]");
  port = atoi(argv[1]);
  follower_count = argc == 4 ? atoi(argv[3]) : 0;
  if (follower_count < 0 || follower_count > MOST_FOLLOWERS) fail("invalid number of followers");
  log_fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  batches = calloc(batch_room = 1024, sizeof *batches);
  if (log_fd < 0 || !batches) fail(argv[2]);
  poll_fd = epoll_create1(0);
  int listener = listen_at();
  for (;;) {
    struct epoll_event ready[EVENTS];
    int count = epoll_wait(poll_fd, ready, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      int fd = ready[i].data.fd;
      if (fd == listener) accept_connection(listener);
      else if (connections[fd]) turn(connections[fd], ready[i].events);
    }
  }
}
