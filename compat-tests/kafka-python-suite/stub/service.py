"""Stands in for a helper that kafka-python's source archive lacks: its tests start no broker here."""


class ExternalService:
    """A broker that somebody else runs."""

    def __init__(self, host, port):
        self.host = host
        self.port = port

    def dump_logs(self):
        pass


class SpawnedService:
    def __init__(self, args, env):
        raise RuntimeError("no broker is started by these tests")
