"""The contract of `streamsvm.kafka`: the same tests on the embedded broker and on a real one."""
