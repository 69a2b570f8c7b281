"""The real host: epoll, sockets, files, threads that block in the kernel."""
