import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createProgram } from '../../packages/cli/src/program.ts';
import { scriptedTerminal } from '../../packages/cli/src/testing/scripted-terminal.ts';
import { parseEnvironment } from '../../packages/server/src/app/config/environment.ts';
import { parseOpenTelemetry } from '../../packages/server/src/app/config/open-telemetry.ts';
import { PrometheusText } from '../../packages/server/src/telemetry/metrics/prometheus.ts';
import { quietSource, type ServiceState } from '../../packages/server/src/telemetry/metrics/quiet-state.fixture.ts';
import { RequestMetrics } from '../../packages/server/src/telemetry/metrics/request-metrics.ts';
import { EvaluatorCounters, FilterCounters } from '../../packages/server/src/telemetry/metrics/service-metrics.ts';
import { samplesOf } from '../../packages/server/testing/prometheus-text.ts';
import { readDeployFile } from '../login/deploy-files.ts';

/** A command of the command line. */
export type Command = Awaited<ReturnType<typeof createProgram>>;

/** Variables that libraries of the service and Node.js read; others of Node.js are in its help. */
const READ_BY_LIBRARIES = ['NODE_OPTIONS', 'OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES'];

/** Returns the environment variables that the service and the command line read. */
export async function productVariables(): Promise<ReadonlySet<string>> {
  const read = new Set<string>(READ_BY_LIBRARIES);
  const recording: NodeJS.ProcessEnv = new Proxy(
    {},
    {
      get: (_target, name) => {
        read.add(String(name));
        return undefined;
      },
    },
  );
  parseEnvironment(recording);
  parseOpenTelemetry(recording);
  for (const [, name = ''] of (await helpText()).matchAll(/\benv: ([A-Z_]+)/g)) read.add(name);
  const node = execFileSync(process.execPath, ['--help'], { encoding: 'utf8' });
  for (const [name] of node.matchAll(/\bNODE_[A-Z_]+/g)) read.add(name);
  return read;
}

/** Returns the command line, which runs nothing. */
export function createUnusedProgram(terminal = scriptedTerminal()): Promise<Command> {
  const unused = (): never => {
    throw new Error('the program runs nothing');
  };
  return createProgram({ terminal, options: unused, connect: unused, output: unused });
}

async function helpText(): Promise<string> {
  const terminal = scriptedTerminal();
  const print = (command: Command): void => {
    command.outputHelp();
    command.commands.forEach(print);
  };
  print(await createUnusedProgram(terminal));
  return terminal.out();
}

/** Returns the ports of the service, of the proxies in front of it and of the identity provider. */
export async function productPorts(): Promise<{ readonly service: ReadonlySet<number>; readonly all: Set<number> }> {
  const pipeline = new URL('../../packages/server/src/app/config/pipeline/default.yaml', import.meta.url);
  const ports = [...(await readFile(pipeline, 'utf8')).matchAll(/:(\d{2,5})\b/g)].map(([, port]) => Number(port));
  const service = new Set([parseEnvironment({}).mgmtListen.port, ...ports]);
  const all = new Set(service);
  for (const kind of ['mcp', 'management']) {
    const { OAUTH2_PROXY_HTTP_ADDRESS: address = '' } = await readDeployFile(`proxy-${kind}.env`);
    all.add(Number(address.split(':').at(-1)));
  }
  all.add(Number((await readDeployFile('keycloak.env')).KC_HTTP_PORT));
  return { service, all };
}

/** Names of metrics as Prometheus stores them, of their labels, and of metrics in OpenTelemetry's form. */
export interface MetricNames {
  readonly series: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;
  readonly openTelemetry: ReadonlySet<string>;
  /** The metrics alone, in OpenTelemetry's form. */
  readonly metrics: readonly string[];
}

/** Returns the names of all metrics, from a source in which each of them has a series. */
export async function productMetrics(): Promise<MetricNames> {
  const source = quietSource(recordedRequests(), FULL_STATE);
  const text = (await Array.fromAsync(new PrometheusText(source).chunks())).join('');
  const samples = samplesOf(text);
  const metrics = source.reader().read();
  return {
    metrics: metrics.map(({ name }) => name),
    series: new Set([...samples.map(({ name }) => name), ...metrics.map(({ name }) => name.replaceAll('.', '_'))]),
    labels: new Set(samples.flatMap(({ labels }) => Object.keys(labels))),
    openTelemetry: new Set(
      metrics.flatMap(({ name, series }) => [name, ...series.flatMap(({ attributes }) => Object.keys(attributes))]),
    ),
  };
}

const FULL_STATE: Partial<ServiceState> = {
  filters: () => ({ 'service_methods ping': new FilterCounters().snapshot() }),
  evaluators: () => [{ name: 'guard', counts: new EvaluatorCounters().snapshot() }],
  activeEvaluators: () => [{ name: 'guard', loaded: true }],
  forwards: () => [{ name: 'crm', available: true }],
  services: () => [
    {
      name: 'code',
      serviceType: 'code-execution-engine',
      serviceSubType: 'e',
      languageName: 'python',
      health: 'healthy',
    },
  ],
  toolCallEvents: () => [{ transport: 'mcp', type: 'FAILED', category: 'timeout', count: 1 }],
};

function recordedRequests(): RequestMetrics {
  const requests = new RequestMetrics();
  const server = '127.0.0.1:9';
  const errorType = 'timeout';
  requests.activeRequests('mcp');
  requests.http.record({ listener: 'mcp', method: 'POST', status: 500, seconds: 1 });
  for (const kind of ['tool', 'prompt'] as const) {
    const method = kind === 'tool' ? 'tools/call' : 'prompts/get';
    const operation = { method, subject: { kind, name: 'x' }, errorType, seconds: 1 };
    requests.mcpServer.record({ ...operation, namespace: 'default' });
    requests.mcpClient.record({ ...operation, server });
  }
  requests.rpcClient.record({ method: 's/M', server, errorType, seconds: 1 });
  const models = { requestModel: 'm', responseModel: 'm', inputTokens: 1, outputTokens: 1 };
  requests.completion({ operation: 'chat', ...models, server, errorType, seconds: 1 });
  return requests;
}
