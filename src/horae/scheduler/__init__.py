"""From due jobs to queued runs, on the node that holds their shard."""
