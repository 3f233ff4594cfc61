import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** Services with pipelines of a test's own; all that was started is ended behind it. */
export interface PipelineTests {
  /** A folder of the test's own, where the pipeline file is. */
  readonly folder: string;
  /** The service with this pipeline. No listener is moved by the environment, unless `env` says so. */
  run(yaml: string, env?: Readonly<Record<string, string>>): Promise<TestService>;
  /** The service with one listener, `l`, whose one chain has these filters; `more` is put in at the listener. */
  runFilters(filters: string, more?: string, env?: Readonly<Record<string, string>>): Promise<TestService>;
  /** A server that says what it was asked, and by which name it goes; its `host:port`. */
  upstream(name: string): Promise<string>;
  /** Has something ended behind the test. */
  finally(end: () => unknown): void;
}

/** To be called once in a file, at its top. */
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
    const unmoved = { SERVICE_MCP_LISTEN: '', SERVICE_INFERENCE_LISTEN: '', ...env };
    const service = await startTestService(unmoved, ['--pipeline-config', join(folder, 'p.yaml')]);
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

/** A file with one listener, `l`, whose one chain has these filters. */
export function oneListener(filters: string, more = ''): string {
  return `
listeners: [{ name: l, address: '127.0.0.1:0', filter_chains: [c]${more} }]
filter_chains:
  - name: c
    filters:
${filters.replace(/^/gm, '      ')}
`;
}

/** The address of something at a listener. */
export function at(service: TestService, listener: string, path: string): string {
  return `http://${service.addresses[listener]}${path}`;
}
