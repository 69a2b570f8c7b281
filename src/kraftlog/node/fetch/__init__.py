"""Fetch, from the request to the response. In the order in which they are best read:

`handler` takes the request and finds its session. `reader` decides what a consumer or a follower
may see of a partition. `reading` reads the partitions; `follower_read` is its shortcut for what
followers usually ask. `delayed` waits until there is enough and responds. `large` does the same in
slices, `with_metadata` together with the metadata log. `template` and its kin answer requests that
differ from the last one in a few numbers only, without decoding them: docs/understand/fast-path.md.
"""
