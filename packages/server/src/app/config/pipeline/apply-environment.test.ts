import { describe, expect, it } from 'vitest';
import { parseEnvironment } from '../environment.ts';
import { applyEnvironment } from './load.ts';
import { parsePipeline } from './parse.ts';
import type { Pipeline } from './pipeline.ts';

const FILE = `listeners:
  - {name: mcp, address: "127.0.0.1:1", filter_chains: [a, b]}
  - {name: inference, address: "127.0.0.1:2", filter_chains: [b]}
  - {name: third, address: "127.0.0.1:3", filter_chains: [a]}
filter_chains:
  - name: a
    filters:
      - {filter: cors, allow_origins: [https://one, https://two]}
  - name: b
    filters:
      - {filter: cors, allow_origins: [https://three], allow_credentials: true}
      - {filter: router, routes: [{path_prefix: /, cluster: inference}, {path_prefix: /x, cluster: other}]}
      - filter: load_balancer
        clusters:
          - {name: inference, endpoints: ["h:1", "h:2"], connection_timeout_ms: 5}
          - {name: other, endpoints: ["h:3"], tls: {}}
`;

function effective(env: NodeJS.ProcessEnv, file = FILE): Pipeline {
  return applyEnvironment(parsePipeline(file, 'p'), parseEnvironment(env));
}

function origins({ listeners }: Pipeline) {
  return listeners.map(({ filters }) =>
    filters.flatMap(({ settings }) => (settings.filter === 'cors' ? [settings.allow_origins] : [])),
  );
}

describe('applying the environment to a pipeline', () => {
  it('changes nothing without variables', () => {
    const { warnings, ...rest } = effective({});
    const { warnings: own, ...pipeline } = parsePipeline(FILE, 'p');
    expect(rest).toEqual(pipeline);
    expect(own).toEqual([]);
    expect(warnings).toHaveLength(2);
  });

  it('replaces the addresses of the listeners mcp and inference', () => {
    const { listeners } = effective({ SERVICE_MCP_LISTEN: '[::1]:0', SERVICE_INFERENCE_LISTEN: '127.0.0.1:1' });
    expect(listeners.map(({ address, addressAt }) => ({ address, addressAt }))).toEqual([
      { address: { host: '::1', port: 0 }, addressAt: 'SERVICE_MCP_LISTEN' },
      { address: { host: '127.0.0.1', port: 1 }, addressAt: 'SERVICE_INFERENCE_LISTEN' },
      { address: { host: '127.0.0.1', port: 3 }, addressAt: 'p:4:19' },
    ]);
  });

  it.each(['0.0.0.0', '[::]', '[0:0:0:0:0:0:0:0]', '[::ffff:0.0.0.0]'])(
    'binds 127.0.0.1 instead of %s with SERVICE_LOCAL=1',
    (host) => {
      const file = FILE.replaceAll(/127\.0\.0\.1:[13]/g, (address) => `${host}${address.slice(-2)}`);
      const addresses = ({ listeners }: Pipeline) => listeners.map(({ address }) => address);
      const local = addresses(effective({ SERVICE_LOCAL: '1', SERVICE_MCP_LISTEN: `${host}:9` }, file));
      expect(local).toEqual([9, 2, 3].map((port) => ({ host: '127.0.0.1', port })));
      expect(addresses(effective({}, file))[0]?.host).toBe(host.replace(/^\[|\]$/g, ''));
      const other = effective({ SERVICE_LOCAL: '1', SERVICE_MCP_LISTEN: '10.0.0.5:9' });
      expect(addresses(other)[0]).toEqual({ host: '10.0.0.5', port: 9 });
    },
  );

  it('requires the listener whose address is replaced', () => {
    const file = FILE.replace('name: mcp', 'name: agents').replace('name: inference, a', 'name: models, a');
    expect(() => effective({ SERVICE_MCP_LISTEN: '127.0.0.1:0' }, file)).toThrow(
      /^SERVICE_MCP_LISTEN: the pipeline has no listener "mcp"; .*listeners: "agents", "models", "third"\)$/,
    );
    expect(() => effective({ SERVICE_INFERENCE_LISTEN: '127.0.0.1:0' }, file)).toThrow(
      /^SERVICE_INFERENCE_LISTEN: the pipeline has no listener "inference"/,
    );
  });

  it('rejects an address of another listener', () => {
    expect(() => effective({ SERVICE_MCP_LISTEN: '0.0.0.0:3' })).toThrow(
      /^p:4:19: listener "third" has the same address as listener "mcp" \(SERVICE_MCP_LISTEN\); use another address$/,
    );
  });

  it('replaces the upstream of the cluster inference, but not its connect timeout', () => {
    const { clusters } = effective({ SERVICE_INFERENCE_UPSTREAM: 'https://api.example.com/v1/' });
    expect(Object.fromEntries(clusters)).toEqual({
      inference: {
        name: 'inference',
        endpoints: [{ address: { host: 'api.example.com', port: 443 }, weight: 1 }],
        tls: {},
        connection_timeout_ms: 5,
        path: '/v1',
      },
      other: { name: 'other', endpoints: [{ address: { host: 'h', port: 3 }, weight: 1 }], tls: {} },
    });
    const plain = effective(
      { SERVICE_INFERENCE_UPSTREAM: '[::1]:9' },
      FILE.replace('connection_timeout_ms: 5', 'tls: {}'),
    );
    expect(plain.clusters.get('inference')).toEqual({
      name: 'inference',
      endpoints: [{ address: { host: '::1', port: 9 }, weight: 1 }],
    });
  });

  it('warns of an upstream without the cluster inference', () => {
    const file = FILE.replaceAll('cluster: inference', 'cluster: model').replace(
      '{name: inference, e',
      '{name: model, e',
    );
    expect(effective({ SERVICE_INFERENCE_UPSTREAM: 'h:1', SERVICE_CORS_ORIGIN: 'https://two' }, file).warnings).toEqual(
      ['SERVICE_INFERENCE_UPSTREAM has no effect: the pipeline has no cluster "inference"'],
    );
  });

  it('replaces the first origin of every cors filter', () => {
    const changed = effective({ SERVICE_CORS_ORIGIN: 'https://mine' });
    expect(origins(changed)).toEqual([
      [['https://mine', 'https://two'], ['https://mine']],
      [['https://mine']],
      [['https://mine', 'https://two']],
    ]);
    expect(changed.chains.map(({ filters }) => filters[0])).toEqual([
      changed.listeners[0]?.filters[0],
      changed.listeners[1]?.filters[0],
    ]);
  });

  it('warns of origins that the listener rejects', () => {
    const rejected = (at: string, origins: string) =>
      `${at}: cors allows ${origins}, but the listener rejects every foreign origin except SERVICE_CORS_ORIGIN`;
    const warningsOf = (env: NodeJS.ProcessEnv, file = FILE) => effective(env, file).warnings;
    expect(warningsOf({})).toEqual([
      rejected('p:8:9', 'https://one, https://two'),
      rejected('p:11:9', 'https://three'),
    ]);
    expect(warningsOf({ SERVICE_CORS_ORIGIN: 'https://two' })).toEqual([]);
    expect(warningsOf({ SERVICE_CORS_ORIGIN: 'https://mine' })).toEqual([rejected('p:8:9', 'https://two')]);
    expect(
      warningsOf(
        {},
        FILE.replace('https://one', '"*"').replace('[https://three]', '["http://localhost:3", "http://[::1]"]'),
      ),
    ).toEqual([]);
    expect(
      warningsOf(
        {},
        FILE.replace('https://one', '"*"').replace('[https://three]', '["http://127.0.0.1"], allow_null_origin: true'),
      ),
    ).toEqual([rejected('p:11:9', 'null')]);
    expect(
      warningsOf({}, FILE.replace('https://one', '"*"').replace('https://three', 'http://localhost.example.com')),
    ).toEqual([rejected('p:11:9', 'http://localhost.example.com')]);
  });

  it('rejects the origin * if credentials are allowed', () => {
    expect(() => effective({ SERVICE_CORS_ORIGIN: '*' })).toThrow(
      /^SERVICE_CORS_ORIGIN: "\*" cannot be combined with allow_credentials \(p:11:9\); set an origin/,
    );
    expect(origins(effective({ SERVICE_CORS_ORIGIN: '*' }, FILE.replace('true', 'false')))[1]).toEqual([['*']]);
  });
});
