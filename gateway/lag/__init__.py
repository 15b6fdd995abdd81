"""The lag of groups: a survey of all of them once an interval, for metrics, `/v1/lag.json` and verdicts.

    readings (the coordinator's shards, ZooKeeper, Spark's checkpoints)
        ──> ends (replicas here, ListOffsets to other leaders)
        ──> times of the oldest unread records (logs here, Fetch from other leaders)
        ──> rows, verdicts

readers.py              what groups have committed, and rows of lag: values
coordinated_groups.py   readings of the coordinator       zookeeper_groups.py   of ZooKeeper
spark_queries.py        of Spark's checkpoints            partition_ends.py     starts and ends
unread_times.py         times, from logs of this broker   leader_times.py       from other leaders
commit_windows.py       the last commits, for verdicts    requests_to_leaders.py requests over links
lag_rows.py             rows of one survey, pure          lag_collector.py      the survey and its interval
lag_json.py             `/v1/lag.json`                    lag_metrics.py        tables of the metrics
broker_lag.py           the parts of one broker, at the first need
"""
