// One broker: its live plots, log directories, configs, and the APIs that it serves.
import { html } from "../components/html.js";
import { useLive } from "../components/live.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { paceOfCluster, useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { COLUMNS as DIRECTORY_COLUMNS } from "./log_directories.js";
import { BrokerPlots } from "./overview.js";
import { ConfigList } from "./topic_configs.js";

const TABS = [
  { name: "live", title: "Live" },
  { name: "log-directories", title: "Log directories" },
  { name: "configs", title: "Configs" },
  { name: "apis", title: "APIs" },
];

export default function BrokerPage({ values, query }) {
  const { data, error, isLoading, reload } = useResource("brokers", {}, { everyMs: paceOfCluster });
  const tab = query.tab ?? "live";
  const broker = data?.brokers.find((row) => String(row.node_id) === values.broker);
  return html`<${PageHead} title=${`Broker ${values.broker}`} path=${[["Brokers", address("/brokers")]]}>
      ${broker?.is_controller && html`<${Badge} kind="accent">controller<//>`}
    <//>
    ${isLoading && html`<${Loading} what="the broker" />`} ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${data && !broker && html`<${Empty} title=${`No live broker has the id ${values.broker}`}>It may be down, or be gone from the cluster.<//>`}
    ${broker &&
    html`<${Figures}
        items=${[
          { label: "Address", value: broker.address, isSmall: true },
          { label: "Rack", value: broker.rack, isSmall: true, reason: "broker.rack is not set" },
          { label: "Leads", value: broker.partitions_led, kind: "number" },
          { label: "Replicas", value: broker.replicas, kind: "number" },
          { label: "Behind", value: broker.replicas_behind, kind: "number", mood: broker.replicas_behind ? "warn" : "" },
        ]}
      />
      <${Tabs} tabs=${TABS} chosen=${tab} label="Parts of the broker" />
      ${tab === "live" && html`<${Live} node=${values.broker} />`}
      ${tab === "log-directories" && html`<${LogDirectories} node=${values.broker} />`}
      ${tab === "configs" && html`<${ConfigList} resource="broker_configs" parameters=${{ broker: values.broker }} />`}
      ${tab === "apis" && html`<${Apis} node=${values.broker} />`}`}`;
}

function Live({ node }) {
  const live = useLive();
  const brokers = Object.values(live.brokers).filter((broker) => broker.name === `broker ${node}` && broker.numbers.length);
  if (live.error) return html`<${Failure} error=${live.error} />`;
  if (live.source === null) return html`<${Loading} what="figures" />`;
  if (brokers.length) return html`<${BrokerPlots} brokers=${brokers} />`;
  if (live.source === "metrics" && !Object.keys(live.brokers).length) return html`<${Loading} what="figures" />`;
  const missing = Object.keys(live.missing).length ? live.missing : { figures: "the console does not know the HTTP listener of this broker: name it with --http" };
  return html`<${Missing} missing=${missing} />`;
}

function LogDirectories({ node }) {
  const { data, error, isLoading, reload } = useResource("log_directories", {}, { everyMs: 15_000 });
  if (isLoading) return html`<${Loading} what="log directories" />`;
  if (!data) return html`<${Failure} error=${error} retry=${reload} />`;
  return html`<${Missing} missing=${data.missing} />
    <${List}
      name="log directories"
      columns=${DIRECTORY_COLUMNS}
      rows=${data.log_directories.filter((row) => String(row.broker) === node)}
      rowKey=${(row) => row.log_directory}
      onOpen=${(row) => go(address("/log-directories", row.broker, row.log_directory))}
      empty=${html`<${Empty} title="The broker shows no log directories" />`}
    />`;
}

const API_COLUMNS = [
  { name: "api_key", title: "Key", value: (row) => row.api_key, kind: "number", width: "70px", isSearched: true },
  { name: "api", title: "API", value: (row) => row.api, reason: () => "newer than this console", width: "minmax(180px, 2fr)" },
  { name: "min_version", title: "From", value: (row) => row.min_version, kind: "number", width: "80px" },
  { name: "max_version", title: "To", value: (row) => row.max_version, kind: "number", width: "80px" },
];

function Apis({ node }) {
  const { data, error, isLoading, reload } = useResource("broker_apis", { broker: node });
  if (isLoading) return html`<${Loading} what="APIs" />`;
  if (!data) return html`<${Failure} error=${error} retry=${reload} />`;
  return html`<${Missing} missing=${data.missing} />
    <${List} name="APIs" columns=${API_COLUMNS} rows=${data.apis} rowKey=${(row) => row.api_key} empty=${html`<${Empty} title="The broker names no APIs" />`} />`;
}
