/* Sends requests over plain sockets, one at a time on each, and measures their latency.
 *
 *   probe PORT FRAMES CONNECTIONS COUNT SECONDS ERROR_POSITION
 *
 * FRAMES is a file of encoded requests, which are sent in order and repeatedly: COUNT of them, or
 * as many as fit into SECONDS. ERROR_POSITION is where a response has its error code, counted after
 * its length; the code must be 0. Prints the total seconds, then the microseconds of each request.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RESPONSE = 65536, MAX_CONNECTIONS = 1024, EVENTS = 64, WAIT_MS = 60000 };

struct connection {
  int fd;
  size_t filled;
  double sent_at;
  char response[MAX_RESPONSE];
};

static struct connection *connections[MAX_CONNECTIONS];
static char *frames, *next_frame, *end_of_frames;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void fail(const char *why) {
  fprintf(stderr, "probe: %s\n", why);
  exit(1);
}

static uint32_t length_at(const char *at) {
  uint32_t length;
  memcpy(&length, at, 4);
  return ntohl(length);
}

static void read_frames(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail("no file of requests");
  long size = ftell(file);
  rewind(file);
  frames = next_frame = malloc(size);
  end_of_frames = frames + size;
  if (size < 4 || fread(frames, 1, size, file) != (size_t)size) fail("no requests in the file");
  fclose(file);
}

static void send_request(struct connection *c) {
  size_t size = 4 + length_at(next_frame);
  c->sent_at = now_us();
  if (write(c->fd, next_frame, size) != (ssize_t)size) fail("a request can't be sent");
  next_frame += size;
  if (next_frame == end_of_frames) next_frame = frames;
}

static struct connection *open_connection(int port) {
  struct connection *c = calloc(1, sizeof *c);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int on = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) fail(strerror(errno));
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return c;
}

/* Receives a part of a response; returns whether the response is complete. */
static int is_complete(struct connection *c, size_t error_position) {
  ssize_t got = read(c->fd, c->response + c->filled, MAX_RESPONSE - c->filled);
  if (got <= 0) fail("the broker has closed the connection");
  c->filled += got;
  if (c->filled < 4 || c->filled < 4 + length_at(c->response)) return 0;
  if (c->filled < 6 + error_position) fail("a response is too short");
  uint16_t code;
  memcpy(&code, c->response + 4 + error_position, 2);
  if (code) {
    fprintf(stderr, "probe: the response has error %d\n", (int16_t)ntohs(code));
    exit(1);
  }
  c->filled = 0;
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 7) fail("usage: probe PORT FRAMES CONNECTIONS COUNT SECONDS ERROR_POSITION");
  int port = atoi(argv[1]), connection_count = atoi(argv[3]), count = atoi(argv[4]);
  int sent = 0, done = 0;
  double seconds = atof(argv[5]);
  size_t error_position = atol(argv[6]);
  if (connection_count < 1 || connection_count > MAX_CONNECTIONS || count < connection_count)
    fail("invalid number of connections or requests");
  read_frames(argv[2]);
  int poll = epoll_create1(0);
  for (int i = 0; i < connection_count; i++) {
    connections[i] = open_connection(port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connections[i]};
    epoll_ctl(poll, EPOLL_CTL_ADD, connections[i]->fd, &event);
  }
  float *latencies_us = malloc(count * sizeof *latencies_us);
  double start = now_us(), end = start + seconds * 1e6;
  for (; sent < connection_count; sent++) send_request(connections[sent]);
  while (done < sent) {
    struct epoll_event ready[EVENTS];
    int n = epoll_wait(poll, ready, EVENTS, WAIT_MS);
    if (n <= 0) fail("no response within a minute");
    for (int i = 0; i < n; i++) {
      struct connection *c = ready[i].data.ptr;
      if (!is_complete(c, error_position)) continue;
      double now = now_us();
      latencies_us[done++] = now - c->sent_at;
      if (sent < count && now < end) send_request(c), sent++;
    }
  }
  printf("%.6f\n", (now_us() - start) / 1e6);
  for (int i = 0; i < done; i++) printf("%.1f\n", latencies_us[i]);
  return 0;
}
