import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../http/settings.ts';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline, parsePipeline, readEmbeddedPipeline } from './parse.ts';
import type { Pipeline } from './pipeline.ts';

function pipelineOf(text: string): Pipeline {
  const checked = checkPipeline(text, 'p', '/etc/sluice');
  if ('problems' in checked) throw new Error(checked.problems.map(formatProblem).join('\n'));
  return checked.pipeline;
}

function problemsOf(text: string): string[] {
  const checked = checkPipeline(text, 'p');
  if ('pipeline' in checked) throw new Error('accepted');
  return checked.problems.map(formatProblem);
}

/** Valid file with these lines appended, and these settings of its first listener. */
const file = (more = '', listener = '') => `listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [main]${listener}}
filter_chains:
  - name: main
    filters:
      - filter: mcp
      - filter: service_methods
${more}`;

/** File with these filters in its only chain; the first one is on line 6. */
const chain = (...filters: string[]) => `listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [main]}
filter_chains:
  - name: main
    filters:
${filters.map((filter) => `      - {filter: ${filter}}\n`).join('')}`;

const BALANCER = 'load_balancer, clusters: [{name: k, endpoints: ["h:1"]}]';
const ROUTER = 'router, routes: [{path_prefix: /, cluster: k}]';

describe('the embedded pipeline', () => {
  it('accepts the documented pipeline', async () => {
    const { listeners, clusters, bodyLimits, shutdownTimeoutMs, warnings } = parsePipeline(
      await readEmbeddedPipeline(),
      'p',
    );
    expect(listeners.map(({ name, address, chains }) => ({ name, address, chains }))).toEqual([
      { name: 'mcp', address: { host: '0.0.0.0', port: 8081 }, chains: ['mcp_router'] },
      { name: 'inference', address: { host: '0.0.0.0', port: 8083 }, chains: ['inference_proxy'] },
    ]);
    expect(listeners.map(({ filters }) => filters.map(({ settings }) => settings.filter).join(' '))).toEqual([
      'cors mcp service_namespace service_well_known service_evaluator service_methods',
      'service_intercept router load_balancer',
    ]);
    expect(listeners[0]?.filters[0]?.settings).toMatchObject({
      allow_origins: ['*'],
      allow_methods: ['GET', 'POST', 'DELETE', 'OPTIONS'],
      allow_headers: [
        ...[
          'Content-Type',
          'Accept',
          'Authorization',
          'Mcp-Session-Id',
          'Mcp-Protocol-Version',
          'Mcp-Method',
          'Mcp-Name',
        ],
        ...['Last-Event-ID', 'X-Request-Id', 'X-Conversation-Id', 'Mcp-Param-*'],
      ],
      expose_headers: ['Mcp-Session-Id'],
      allow_credentials: false,
    });
    expect(listeners[1]?.filters[1]?.settings).toMatchObject({ routes: [{ path_prefix: '/', cluster: 'inference' }] });
    expect([...clusters.values()]).toEqual([
      { name: 'inference', endpoints: [{ address: { host: '127.0.0.1', port: 11434 }, weight: 1 }] },
    ]);
    expect({ bodyLimits, shutdownTimeoutMs, warnings }).toEqual({
      bodyLimits: { request: 4 * 1024 * 1024, response: 64 * 1024 * 1024 },
      shutdownTimeoutMs: 30_000,
      warnings: [],
    });
  });
});

describe('a pipeline file', () => {
  it('has defaults for all optional keys', () => {
    expect(pipelineOf(file())).toMatchObject({
      listeners: [{ tls: undefined, readTimeoutMs: undefined, maxConnections: undefined }],
      bodyLimits: { request: 4_194_304, response: 67_108_864 },
      shutdownTimeoutMs: 30_000,
      skipValidation: false,
      warnings: [],
    });
  });

  it('sets all settings of a listener, with paths relative to its folder', () => {
    const text = file(
      '',
      ', protocol: http, downstream_read_timeout_ms: 5, max_connections: 7, tls: {certificates: [{cert_path: a.pem, key_path: /k.pem}]}',
    );
    expect(pipelineOf(text).listeners[0]).toEqual({
      name: 'one',
      address: { host: '127.0.0.1', port: 1 },
      addressAt: 'p:2:17',
      chains: ['main'],
      filters: [
        { settings: { filter: 'mcp', on_invalid: 'continue' }, at: 'p:6:9' },
        { settings: { filter: 'service_methods' }, at: 'p:7:9' },
      ],
      tls: {
        certPath: '/etc/sluice/a.pem',
        keyPath: '/k.pem',
        certAt: { file: 'p', line: 2, column: 153 },
        keyAt: { file: 'p', line: 2, column: 171 },
      },
      readTimeoutMs: 5,
      maxConnections: 7,
    });
  });

  it('sets limits and timeouts', () => {
    const text = file('body_limits: {max_request_bytes: 1, max_response_bytes: 2}\nshutdown_timeout_secs: 0');
    expect(pipelineOf(text)).toMatchObject({ bodyLimits: { request: 1, response: 2 }, shutdownTimeoutMs: 0 });
    expect(pipelineOf(file('body_limits: {max_response_bytes: 2}')).bodyLimits).toEqual({
      request: 4_194_304,
      response: 2,
    });
  });

  it('concatenates the chains of a listener', () => {
    const { listeners } = pipelineOf(`listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [tail, head]}
  - {name: two, address: "127.0.0.1:0", filter_chains: [tail]}
  - {name: three, address: "[::1]:0", filter_chains: [tail]}
filter_chains:
  - {name: head, filters: [{filter: service_methods}]}
  - {name: tail, filters: [{filter: headers}, {filter: mcp}]}`);
    expect(listeners.map(({ filters }) => filters.map(({ settings }) => settings.filter))).toEqual([
      ['headers', 'mcp', 'service_methods'],
      ['headers', 'mcp'],
      ['headers', 'mcp'],
    ]);
  });

  it('makes clusters of the top level and of load balancers available to all routes', () => {
    const { clusters, warnings } = pipelineOf(
      `${chain(ROUTER, 'router, routes: [{path_prefix: /, cluster: m}]', BALANCER)}clusters: [{name: m, endpoints: ["h:2"]}]`,
    );
    expect([...clusters.keys()]).toEqual(['m', 'k']);
    expect(warnings).toEqual([]);
  });

  it.each<[string, string, string[]]>([
    ['no content', '', ['p:1:1: listeners is missing', 'p:1:1: filter_chains is missing']],
    ['a list as top level', '- a', ['p:1:1: the top level must be a map']],
    ['a string as top level', '  listeners', ['p:1:3: the top level must be a map']],
    [
      'an unknown key',
      file('cluster: []'),
      [
        'p:8:1: cluster is not a known field; known fields: listeners, filter_chains, clusters, body_limits, ' +
          'shutdown_timeout_secs, insecure_options, admin, runtime',
      ],
    ],
    ['no listeners', 'listeners: []\nfilter_chains: []', ['p:1:1: listeners must have at least one listener']],
    ['a listener that is not a map', file().replace(/\{name.*\}/, 'one'), ['p:2:5: listeners[0] must be a map']],
    [
      'a misspelled key of a listener',
      file('', ', max_conections: 5'),
      [
        'p:2:64: listeners[0].max_conections is not a known field; known fields: name, address, filter_chains, protocol, tls, ' +
          'downstream_read_timeout_ms, max_connections',
      ],
    ],
    [
      'a name that is a number',
      file().replace('name: one', 'name: 1'),
      ['p:2:6: listeners[0].name must be a string; quote it'],
    ],
    ['an empty name', file().replace('name: one', 'name: ""'), ['p:2:6: listeners[0].name must not be empty']],
    [
      'the name of the management API’s listener',
      file().replace('name: one', 'name: management'),
      ['p:2:6: listeners[0].name must not be management or peer, which are the names of listeners of the service'],
    ],
    [
      'the name of the listener for replicas',
      file().replace('name: one', 'name: peer'),
      ['p:2:6: listeners[0].name must not be management or peer, which are the names of listeners of the service'],
    ],
    ['no name', file().replace('name: one, ', ''), ['p:2:5: listeners[0].name is missing']],
    [
      'an address without a port',
      file().replace(':1"', '"'),
      ['p:2:17: listeners[0].address has no port; expected host:port, such as 0.0.0.0:8080 or [::]:8080'],
    ],
    [
      'a listener without chains',
      file().replace('[main]', '[]'),
      ['p:2:41: listeners[0].filter_chains must name at least one chain'],
    ],
    [
      'an unknown chain',
      file().replace('[main]', '[main, mian, gone]'),
      ['p:2:63: unknown chain "mian"; known chains: "main"', 'p:2:69: unknown chain "gone"; known chains: "main"'],
    ],
    ['another protocol', file('', ', protocol: tcp'), ['p:2:64: listeners[0].protocol must be http']],
    [
      'two certificates',
      file('', ', tls: {certificates: [{cert_path: a, key_path: b}, {cert_path: c, key_path: d}]}'),
      ['p:2:70: listeners[0].tls.certificates must have exactly one certificate'],
    ],
    [
      'no certificate',
      file('', ', tls: {certificates: []}'),
      ['p:2:70: listeners[0].tls.certificates must have exactly one certificate'],
    ],
    ['TLS without a value', file('', ', tls: '), ['p:2:64: listeners[0].tls has no value; expected a map']],
    [
      'an incomplete certificate',
      file('', ', tls: {certificates: [{cert_path: a, key: b}]}'),
      [
        'p:2:85: listeners[0].tls.certificates[0].key_path is missing',
        'p:2:100: listeners[0].tls.certificates[0].key is not a known field; known fields: cert_path, key_path',
      ],
    ],
    [
      'a timeout of 0',
      file('', ', downstream_read_timeout_ms: 0'),
      ['p:2:64: listeners[0].downstream_read_timeout_ms must be at least 1'],
    ],
    [
      'a limit of 0 connections',
      file('', ', max_connections: 0'),
      ['p:2:64: listeners[0].max_connections must be at least 1'],
    ],
    [
      'two listeners with the same name',
      file().replace(
        'filter_chains:\n',
        '  - {name: one, address: "127.0.0.1:2", filter_chains: [main]}\nfilter_chains:\n',
      ),
      ['p:3:5: duplicate listener name "one"'],
    ],
    [
      'two listeners with the same address',
      file().replace(
        'filter_chains:\n',
        '  - {name: two, address: "127.0.0.1:1", filter_chains: [main]}\nfilter_chains:\n',
      ),
      ['p:3:17: listener "two" has the same address as listener "one" (p:2:17); use another address'],
    ],
    [
      'a wildcard address of another listener',
      file().replace('filter_chains:\n', '  - {name: two, address: "[::]:1", filter_chains: [main]}\nfilter_chains:\n'),
      ['p:3:17: listener "two" has the same address as listener "one" (p:2:17); use another address'],
    ],
    [
      'two chains with the same name',
      file('  - {name: main, filters: [{filter: mcp}]}'),
      ['p:8:5: duplicate chain name "main"'],
    ],
    [
      'chains that are not a list',
      'listeners: [{name: a, address: "h:1", filter_chains: [main]}]\nfilter_chains: {main: []}',
      ['p:2:1: filter_chains must be a list'],
    ],
    [
      'a chain without a name, without reporting references',
      file().replace('- name: main\n    ', '- '),
      ['p:4:5: filter_chains[0].name is missing'],
    ],
    [
      'a chain without filters',
      file('  - {name: b, filters: []}'),
      ['p:8:15: filter_chains[1].filters must have at least one filter'],
    ],
    [
      'an unknown key of a chain',
      file('    filter: []'),
      ['p:8:5: filter_chains[0].filter is not a known field; known fields: name, filters'],
    ],
    ['an empty filter', file('      -'), ['p:8:8: filter_chains[0].filters[2] has no value; expected a map']],
    [
      'two clusters with the same name',
      `${chain(ROUTER, BALANCER)}clusters: [{name: k, endpoints: ["h:1"]}]`,
      ['p:7:44: duplicate cluster name "k"'],
    ],
    [
      'an unknown cluster',
      chain('router, routes: [{path_prefix: /, cluster: kk}]', BALANCER),
      ['p:6:52: unknown cluster "kk"; known clusters: "k"'],
    ],
    [
      'a cluster without endpoints',
      file('clusters: [{name: k, endpoints: []}]'),
      ['p:8:22: clusters[0].endpoints must have at least one endpoint'],
    ],
    [
      'invalid endpoints',
      file('clusters: [{name: k, endpoints: [h, "h:0", "h:1 ", 5, {adress: "h:1"}, {address: "h:1", weight: 0}]}]'),
      [
        'p:8:34: clusters[0].endpoints[0].address has no port; expected host:port, such as 0.0.0.0:8080 or [::]:8080',
        'p:8:37: clusters[0].endpoints[1].address has an invalid port: must be 1–65535',
        'p:8:44: clusters[0].endpoints[2].address has an invalid port: must be 0–65535; expected host:port, such as 0.0.0.0:8080 or [::]:8080',
        'p:8:52: clusters[0].endpoints[3] must be host:port or a map with address and weight',
        'p:8:55: clusters[0].endpoints[4].address is missing',
        'p:8:56: clusters[0].endpoints[4].adress is not a known field; known fields: address, weight',
        'p:8:89: clusters[0].endpoints[5].weight must be at least 1',
      ],
    ],
    [
      'tls: false of a cluster',
      file('clusters: [{name: k, endpoints: ["h:1"], tls: false}]'),
      ['p:8:42: clusters[0].tls must be a map'],
    ],
    [
      'settings in tls of a cluster',
      file('clusters: [{name: k, endpoints: ["h:1"], tls: {verify: false}}]'),
      ['p:8:48: clusters[0].tls.verify is not a known field; known fields: none'],
    ],
    [
      'a connect timeout of 0',
      file('clusters: [{name: k, endpoints: ["h:1"], connection_timeout_ms: 0}]'),
      ['p:8:42: clusters[0].connection_timeout_ms must be at least 1'],
    ],
    ['a key without a value', file('clusters:'), ['p:8:1: clusters has no value; expected a list']],
    [
      'invalid limits',
      file('body_limits: {max_request_bytes: 4MiB, max_response_bytes: 0, max: 1}'),
      [
        'p:8:15: body_limits.max_request_bytes must be a number',
        'p:8:40: body_limits.max_response_bytes must be at least 1',
        'p:8:63: body_limits.max is not a known field; known fields: max_request_bytes, max_response_bytes',
      ],
    ],
    [
      'a shutdown timeout that is too long',
      file('shutdown_timeout_secs: 86401'),
      ['p:8:1: shutdown_timeout_secs must be at most 86400'],
    ],
    [
      'invalid insecure options',
      file('insecure_options: {skip_validation: true, skip_pipeline_validation: 1}'),
      [
        'p:8:20: insecure_options.skip_validation is not a known field; known fields: skip_pipeline_validation',
        'p:8:43: insecure_options.skip_pipeline_validation must be true or false',
      ],
    ],
  ])('is rejected with %s', (_what, text, lines) => {
    expect(problemsOf(text)).toEqual(lines);
  });

  it.each<[string, string, string[]]>([
    [
      'a service filter without mcp before it',
      chain('service_methods', 'mcp', 'service_methods'),
      ['p:6:9: filter service_methods requires an mcp filter without conditions before it'],
    ],
    [
      'a service filter after a conditional mcp filter',
      chain('mcp, conditions: [{unless: {path: /up}}]', 'service_methods', 'mcp', 'service_methods'),
      ['p:7:9: filter service_methods requires an mcp filter without conditions before it'],
    ],
    [
      'a filter after an unconditional static response',
      chain('static_response, status: 200', 'headers', 'mcp'),
      [
        'p:7:9: filter headers and all filters after it are unreachable; add conditions to the static_response before it',
      ],
    ],
    [
      'a load balancer without router',
      chain('service_intercept', BALANCER, ROUTER, BALANCER.replace('name: k', 'name: m')),
      ['p:7:9: filter load_balancer requires a router filter before it'],
    ],
  ])('is rejected with %s, unless validation is skipped', (_what, text, lines) => {
    expect(problemsOf(text)).toEqual(lines);
    expect(pipelineOf(`${text}insecure_options: {skip_pipeline_validation: true}`).warnings).toEqual(
      expect.arrayContaining(lines),
    );
    expect(problemsOf(`${text}insecure_options: {skip_pipeline_validation: false}`)).toEqual(lines);
  });

  it('has no ordering mistake if conditions or other chains prevent it', () => {
    expect(
      pipelineOf(chain('static_response, status: 200, conditions: [{when: {path: /up}}]', 'mcp', 'service_methods'))
        .warnings,
    ).toEqual([]);
    expect(
      pipelineOf(`listeners: [{name: one, address: "h:1", filter_chains: [a, b]}]
filter_chains: [{name: b, filters: [{filter: service_methods}]}, {name: a, filters: [{filter: mcp}]}]`).warnings,
    ).toEqual([]);
  });

  it('only skips validation of the order', () => {
    const lenient = 'insecure_options: {skip_pipeline_validation: true}\n';
    expect(problemsOf(lenient + file('x: 1'))).toHaveLength(1);
    expect(problemsOf(lenient + file().replace('[main]', '[gone]'))).toHaveLength(1);
  });

  it('warns of parts without effect', () => {
    const text = `${chain(ROUTER)}  - {name: spare, filters: [{filter: service_methods}]}
clusters: [{name: k, endpoints: ["h:1"]}, {name: m, endpoints: ["h:2"]}]
admin: {address: "h:1"}
runtime: 5`;
    expect(pipelineOf(text).warnings).toEqual([
      'p:6:9: filter router has no effect without load_balancer after it',
      'p:7:5: chain "spare" has no effect: no listener references it',
      'p:8:43: cluster "m" has no effect: no route references it',
      'p:9:1: admin has no effect',
      'p:10:1: runtime has no effect',
    ]);
  });

  it('warns of service_intercept without a load_balancer after it', () => {
    const unused = 'filter service_intercept has no effect without load_balancer after it';
    expect(pipelineOf(chain('service_intercept', 'static_response, status: 200')).warnings).toEqual([
      `p:6:9: ${unused}`,
    ]);
    expect(pipelineOf(chain(ROUTER, BALANCER, 'service_intercept')).warnings).toEqual([`p:8:9: ${unused}`]);
    expect(pipelineOf(chain(ROUTER, 'service_intercept', BALANCER)).warnings).toEqual([]);
    // Chains are concatenated.
    const apart = file('  - {name: pre, filters: [{filter: service_intercept}]}').replace('[main]', '[pre, main]');
    expect(pipelineOf(apart).warnings).toEqual([`p:8:27: ${unused}`]);
  });

  describe('warns of an evaluator filter', () => {
    const at = (line: number) => `p:${line}:9: listener "one", chain "main": filter service_evaluator`;
    const noNamespace = 'has no effect without service_namespace before it';

    it.each<[string, string[], string[]]>([
      ['before service_namespace', ['mcp', 'service_evaluator', 'service_namespace'], [`${at(7)} ${noNamespace}`]],
      ['without service_namespace', ['mcp', 'service_evaluator', 'service_methods'], [`${at(7)} ${noNamespace}`]],
      [
        'after filters that answer',
        ['mcp', 'service_namespace', 'service_methods', 'service_evaluator', 'service_methods'],
        [`${at(9)} misses requests that are answered before it; move it before service_methods`],
      ],
      [
        'in the right place',
        ['mcp', 'service_namespace', 'service_well_known', 'service_evaluator', 'service_methods'],
        [],
      ],
      [
        'after a conditional filter that answers',
        ['mcp', 'service_namespace', 'service_methods, conditions: [{when: {path: /up}}]', 'service_evaluator'],
        [],
      ],
      [
        'after another evaluator filter',
        ['mcp', 'service_namespace', 'service_evaluator', 'service_methods', 'service_evaluator'],
        [],
      ],
    ])('%s', (_where, filters, warnings) => {
      expect(pipelineOf(chain(...filters)).warnings).toEqual(warnings);
    });

    it('only on the affected listener', () => {
      const filters = (...names: string[]) => `filters: [${names.map((name) => `{filter: ${name}}`).join(', ')}]`;
      const text = `listeners:
  - {name: one, address: "h:1", filter_chains: [a, b, c]}
  - {name: two, address: "h:2", filter_chains: [a, c, b]}
filter_chains:
  - {name: a, ${filters('mcp', 'service_namespace')}}
  - {name: b, ${filters('service_methods')}}
  - {name: c, ${filters('service_evaluator')}}`;
      expect(pipelineOf(text).warnings).toEqual([
        'p:7:25: listener "one", chain "c": filter service_evaluator misses requests that are answered before it; move it before service_methods',
      ]);
    });
  });

  it('is rejected with its first problem and the number of others', () => {
    const parsing = () => parsePipeline(file('x: 1').replace('[main]', '[gone, away]'), 'p');
    expect(parsing).toThrow(ConfigError);
    expect(parsing).toThrow(
      /^p:2:57: unknown chain "gone"; known chains: "main" \(and 2 more; run sluice pipeline check to list all\)$/,
    );
  });
});
