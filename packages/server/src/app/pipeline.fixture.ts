import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** Starts services with a test's pipelines and stops everything after the test. */
export interface PipelineTests {
  /** Folder of the test, which contains the pipeline file. */
  readonly folder: string;
  /** Starts the service with this pipeline; only `env` replaces addresses. */
  run(yaml: string, env?: Readonly<Record<string, string>>): Promise<TestService>;
  /** Starts the service with one listener `l` with these filters; `more` are further settings of the listener. */
  runFilters(filters: string, more?: string, env?: Readonly<Record<string, string>>): Promise<TestService>;
  /** Starts a server that responds with its name and the received request; returns its `host:port`. */
  upstream(name: string): Promise<string>;
  /** Runs a function after the test. */
  finally(end: () => unknown): void;
}

/** Call it once at the top of a test file. */
export function pipelineTests(): PipelineTests {
  let folder = '';
  const ends: (() => unknown)[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-pipeline-'));
  });
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
    await rm(folder, { recursive: true, force: true });
  });

  const run = async (yaml: string, env: Readonly<Record<string, string>> = {}): Promise<TestService> => {
    await writeFile(join(folder, 'p.yaml'), yaml);
    const variables = { SERVICE_MCP_LISTEN: '', SERVICE_INFERENCE_LISTEN: '', ...env };
    const service = await startTestService(variables, ['--pipeline-config', join(folder, 'p.yaml')]);
    ends.push(() => service.stop(0));
    return service;
  };
  return {
    get folder() {
      return folder;
    },
    run,
    runFilters: (filters, more = '', env = {}) => run(oneListener(filters, more), env),
    async upstream(name) {
      const server = createServer((request, response) => {
        const { method, url, headers } = request;
        response.writeHead(200, { 'X-Upstream': name, 'X-Old': 'old', 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ name, method, url, headers }));
      });
      const port = await listen(server, 0);
      ends.push(() => {
        server.close();
        server.closeAllConnections();
      });
      return `127.0.0.1:${port}`;
    },
    finally: (end) => void ends.push(end),
  };
}

/** Pipeline file with one listener `l` with these filters. */
export function oneListener(filters: string, more = ''): string {
  return `
listeners: [{ name: l, address: '127.0.0.1:0', filter_chains: [c]${more} }]
filter_chains:
  - name: c
    filters:
${filters.replace(/^/gm, '      ')}
`;
}

/** URL of a path on a listener. */
export function at(service: TestService, listener: string, path: string): string {
  return `http://${service.addresses[listener]}${path}`;
}
