"""StreamsGroupTopologyDescriptionUpdate: a member describes its topology, at the broker's request (KIP-1331)."""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, nullable_string, string, v


class TopologyDescriptionNode(Struct):
    """A node of the processing graph: 1 source, 2 processor, 3 sink."""

    name: string = v("0+")
    node_type: int8 = v("0+")
    source_topics: array[string] = v("0+")
    sink_topic: nullable_string = v("0+", default=None)
    stores: array[string] = v("0+")
    successors: array[string] = v("0+")


class TopologyDescriptionSubtopology(Struct):
    """The nodes of a subtopology."""

    subtopology_id: string = v("0+")
    nodes: array[TopologyDescriptionNode] = v("0+")


class TopologyDescriptionGlobalStore(Struct):
    """A global store and its source."""

    source: TopologyDescriptionNode = v("0+")
    processor: TopologyDescriptionNode = v("0+")


class TopologyDescription(Struct):
    """The whole processing graph."""

    subtopologies: array[TopologyDescriptionSubtopology] = v("0+")
    global_stores: array[TopologyDescriptionGlobalStore] = v("0+")


class StreamsGroupTopologyDescriptionUpdateRequest(Message, key=93, versions="0", flexible="0+"):
    """The topology of an epoch."""

    group_id: string = v("0+")
    member_id: string = v("0+")
    topology_epoch: int32 = v("0+")
    topology_description: TopologyDescription = v("0+")


class StreamsGroupTopologyDescriptionUpdateResponse(Message, key=93, response=True, versions="0", flexible="0+"):
    """The result of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
