"""The server: the host of a node, with epoll, sockets, files and I/O threads."""
