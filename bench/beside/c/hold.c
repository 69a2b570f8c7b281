/* Holds a number of MB of memory, touched and locked, until its standard input ends.
 *
 * Other processes then reuse the remaining memory, instead of getting new memory from the host. If
 * memory runs out, this process is the first to be killed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
  size_t size = argc == 2 ? (size_t)atol(argv[1]) << 20 : 0;
  FILE *score = fopen("/proc/self/oom_score_adj", "w");
  if (score) fputs("1000", score), fclose(score);
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
  puts(mlock(memory, size) ? "held, not locked" : "held");
  fflush(stdout);
  char end;
  while (read(0, &end, 1) > 0) continue;
  return 0;
}
