/* A follower of bare.c: it fetches batches, writes them to its file as they are, and fetches on.
 *
 *   bare_follower LEADER_PORT REPLICA_ID FILE
 *
 * The next fetch names the offset after the last batch that is written, as in Kafka: it is the
 * acknowledgement. Ends when the leader does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A response of the usual size stays in the CPU cache; a single batch may be larger. */
enum { FETCH_BYTES = 1 << 20, BUFFER_SIZE = 32 << 20 };
enum { BATCH_LENGTH_AT = 8, LAST_DELTA_AT = 23, BEFORE_LENGTH = 12 };
/* The start of a response: length, ids, topic "t", partition, and the length of its batches. */
enum { HEAD_SIZE = 4 + 4 + 4 + 4 + 2 + 1 + 4 + 4 + 2 + 8 + 8 + 4 + 4 };
enum { RESERVED_AHEAD = 64 << 20 };

static char buffer[BUFFER_SIZE];

static void fail(const char *why) {
  fprintf(stderr, "bare_follower: %s\n", why);
  exit(1);
}

static uint32_t number_at(const char *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return ntohl(value);
}

static int connected_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail("no leader");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static char *put(char *at, int64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--) *at++ = value >> (8 * i);
  return at;
}

static void send_fetch(int fd, int replica_id, int64_t offset) {
  char request[128], *at = request + 4;
  at = put(at, 1, 2); /* Fetch */
  at = put(at, 4, 2); /* its version */
  at = put(at, 1, 4);
  at = put(at, -1, 2); /* no client id */
  at = put(at, replica_id, 4);
  at = put(at, 500, 4); /* milliseconds to wait */
  at = put(at, 1, 4);   /* byte at least */
  at = put(at, FETCH_BYTES, 4);
  at = put(at, 0, 1);
  at = put(at, 1, 4);
  at = put(at, 1, 2);
  *at++ = 't';
  at = put(at, 1, 4);
  at = put(at, 0, 4);
  at = put(at, offset, 8);
  at = put(at, FETCH_BYTES, 4);
  put(request, at - request - 4, 4);
  if (send(fd, request, at - request, MSG_NOSIGNAL) != at - request) exit(0);
}

static void receive(int fd, size_t size) {
  if (size > BUFFER_SIZE) fail("a response is too large");
  for (size_t filled = 0; filled < size;) {
    ssize_t got = recv(fd, buffer + filled, size - filled, MSG_WAITALL);
    if (got <= 0) exit(0);
    filled += got;
  }
}

/* The offset after the last of the batches. */
static int64_t end_of(size_t size) {
  size_t at = 0, last = 0;
  while (at + BEFORE_LENGTH <= size)
    last = at, at += BEFORE_LENGTH + number_at(buffer + at + BATCH_LENGTH_AT);
  if (at != size) fail("a response ends within a batch");
  uint64_t base;
  memcpy(&base, buffer + last, 8);
  return (int64_t)be64toh(base) + number_at(buffer + last + LAST_DELTA_AT) + 1;
}

int main(int argc, char **argv) {
  if (argc != 4) fail("usage: bare_follower LEADER_PORT REPLICA_ID FILE");
  int leader = connected_to(atoi(argv[1])), replica_id = atoi(argv[2]);
  int log = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (log < 0) fail("the file can't be created");
  int64_t offset = 0;
  off_t end = 0, reserved_to = 0;
  for (;;) {
    send_fetch(leader, replica_id, offset);
    receive(leader, HEAD_SIZE);
    size_t size = number_at(buffer + HEAD_SIZE - 4);
    receive(leader, size);
    while (end + (off_t)size > reserved_to) {
      fallocate(log, FALLOC_FL_KEEP_SIZE, reserved_to, RESERVED_AHEAD);
      reserved_to += RESERVED_AHEAD;
    }
    if (pwrite(log, buffer, size, end) != (ssize_t)size) fail("not written");
    end += size;
    offset = end_of(size);
  }
}
