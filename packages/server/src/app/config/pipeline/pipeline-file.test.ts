import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../http/address.ts';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline, embeddedPipeline, parsePipeline } from './parse.ts';
import type { Pipeline } from './pipeline.ts';

function pipelineOf(text: string): Pipeline {
  const checked = checkPipeline(text, 'p', '/etc/sluice');
  if ('problems' in checked) throw new Error(checked.problems.map(formatProblem).join('\n'));
  return checked.pipeline;
}

function complaints(text: string): string[] {
  const checked = checkPipeline(text, 'p');
  if ('pipeline' in checked) throw new Error('it is taken');
  return checked.problems.map(formatProblem);
}

/** A whole file with these lines at its end, and what stands in the first of its listeners. */
const file = (more = '', listener = '') => `listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [main]${listener}}
filter_chains:
  - name: main
    filters:
      - filter: mcp
      - filter: service_relay
${more}`;

/** A whole file with these filters in its only chain, the first of which is on line 6. */
const chain = (...filters: string[]) => `listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [main]}
filter_chains:
  - name: main
    filters:
${filters.map((filter) => `      - {filter: ${filter}}\n`).join('')}`;

const BALANCER = 'load_balancer, clusters: [{name: k, endpoints: ["h:1"]}]';
const ROUTER = 'router, routes: [{path_prefix: /, cluster: k}]';

describe('the embedded pipeline', () => {
  it('is the one of the contract', async () => {
    const { listeners, clusters, bodyLimits, shutdownTimeoutMs, warnings } = parsePipeline(
      await embeddedPipeline(),
      'p',
    );
    expect(listeners.map(({ name, address, chains }) => ({ name, address, chains }))).toEqual([
      { name: 'mcp', address: { host: '0.0.0.0', port: 8081 }, chains: ['mcp_router'] },
      { name: 'inference', address: { host: '0.0.0.0', port: 8083 }, chains: ['inference_proxy'] },
    ]);
    expect(listeners.map(({ filters }) => filters.map(({ settings }) => settings.filter).join(' '))).toEqual([
      'cors mcp service_namespace service_well_known service_evaluator service_mcp_init service_tool_list service_tool_call ' +
        'service_resource_list service_resource_read service_subscribe service_prompt_list service_prompt_get ' +
        'service_completion service_relay',
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
  it('has defaults for all that it can leave out', () => {
    expect(pipelineOf(file())).toMatchObject({
      listeners: [{ tls: undefined, readTimeoutMs: undefined, maxConnections: undefined }],
      bodyLimits: { request: 4_194_304, response: 67_108_864 },
      shutdownTimeoutMs: 30_000,
      skipValidation: false,
      warnings: [],
    });
  });

  it('gives a listener all of its settings, and paths that start at its folder', () => {
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
        { settings: { filter: 'service_relay' }, at: 'p:7:9' },
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

  it('has limits and times of its own', () => {
    const text = file('body_limits: {max_request_bytes: 1, max_response_bytes: 2}\nshutdown_timeout_secs: 0');
    expect(pipelineOf(text)).toMatchObject({ bodyLimits: { request: 1, response: 2 }, shutdownTimeoutMs: 0 });
    expect(pipelineOf(file('body_limits: {max_response_bytes: 2}')).bodyLimits).toEqual({
      request: 4_194_304,
      response: 2,
    });
  });

  it('puts the chains of a listener behind each other', () => {
    const { listeners } = pipelineOf(`listeners:
  - {name: one, address: "127.0.0.1:1", filter_chains: [tail, head]}
  - {name: two, address: "127.0.0.1:0", filter_chains: [tail]}
  - {name: three, address: "[::1]:0", filter_chains: [tail]}
filter_chains:
  - {name: head, filters: [{filter: service_relay}]}
  - {name: tail, filters: [{filter: headers}, {filter: mcp}]}`);
    expect(listeners.map(({ filters }) => filters.map(({ settings }) => settings.filter))).toEqual([
      ['headers', 'mcp', 'service_relay'],
      ['headers', 'mcp'],
      ['headers', 'mcp'],
    ]);
  });

  it('has clusters at the top and in load balancers, for all routes', () => {
    const { clusters, warnings } = pipelineOf(
      `${chain(ROUTER, 'router, routes: [{path_prefix: /, cluster: m}]', BALANCER)}clusters: [{name: m, endpoints: ["h:2"]}]`,
    );
    expect([...clusters.keys()]).toEqual(['m', 'k']);
    expect(warnings).toEqual([]);
  });

  it.each<[string, string, string[]]>([
    ['nothing in it', '', ['p:1:1: listeners is missing', 'p:1:1: filter_chains is missing']],
    ['a list at the top', '- a', ['p:1:1: the top level is not a map of keys']],
    ['a text at the top', '  listeners', ['p:1:3: the top level is not a map of keys']],
    [
      'an unknown key',
      file('cluster: []'),
      [
        'p:8:1: the top level has the unknown key "cluster"; known keys: listeners, filter_chains, clusters, body_limits, ' +
          'shutdown_timeout_secs, insecure_options, admin, runtime',
      ],
    ],
    ['no listeners', 'listeners: []\nfilter_chains: []', ['p:1:1: listeners has no listener']],
    ['a listener that is no map', file().replace(/\{name.*\}/, 'one'), ['p:2:5: listeners[0] is not a map']],
    [
      'a misspelt key of a listener',
      file('', ', max_conections: 5'),
      [
        'p:2:64: listeners[0] has the unknown key "max_conections"; known keys: name, address, filter_chains, protocol, tls, ' +
          'downstream_read_timeout_ms, max_connections',
      ],
    ],
    [
      'a name that is a number',
      file().replace('name: one', 'name: 1'),
      ['p:2:6: listeners[0].name is not a string; quote it'],
    ],
    ['an empty name', file().replace('name: one', 'name: ""'), ['p:2:6: listeners[0].name is empty']],
    [
      'the name of the management API’s listener',
      file().replace('name: one', 'name: management'),
      [
        "p:2:6: listeners[0].name is management, which is what the management API's own listener is called; choose another name",
      ],
    ],
    ['no name', file().replace('name: one, ', ''), ['p:2:5: listeners[0].name is missing']],
    [
      'an address without a port',
      file().replace(':1"', '"'),
      ['p:2:17: listeners[0].address has no port; accepted: host:port, such as 0.0.0.0:8080 or [::]:8080'],
    ],
    [
      'a listener without chains',
      file().replace('[main]', '[]'),
      ['p:2:41: listeners[0].filter_chains names no chain'],
    ],
    [
      'a chain that is not there',
      file().replace('[main]', '[main, mian, gone]'),
      ['p:2:63: there is no chain "mian"; chains: "main"', 'p:2:69: there is no chain "gone"; chains: "main"'],
    ],
    [
      'another protocol',
      file('', ', protocol: tcp'),
      ['p:2:64: listeners[0].protocol is not http, which is all there is'],
    ],
    [
      'two certificates',
      file('', ', tls: {certificates: [{cert_path: a, key_path: b}, {cert_path: c, key_path: d}]}'),
      ['p:2:70: listeners[0].tls.certificates needs exactly one certificate'],
    ],
    [
      'no certificate',
      file('', ', tls: {certificates: []}'),
      ['p:2:70: listeners[0].tls.certificates needs exactly one certificate'],
    ],
    ['TLS without a value', file('', ', tls: '), ['p:2:64: listeners[0].tls has no value; a map is needed']],
    [
      'half a certificate',
      file('', ', tls: {certificates: [{cert_path: a, key: b}]}'),
      [
        'p:2:85: listeners[0].tls.certificates[0].key_path is missing',
        'p:2:100: listeners[0].tls.certificates[0] has the unknown key "key"; known keys: cert_path, key_path',
      ],
    ],
    [
      'a time of nothing',
      file('', ', downstream_read_timeout_ms: 0'),
      ['p:2:64: listeners[0].downstream_read_timeout_ms is below 1'],
    ],
    ['no connections', file('', ', max_connections: 0'), ['p:2:64: listeners[0].max_connections is below 1']],
    [
      'two listeners of a name',
      file().replace(
        'filter_chains:\n',
        '  - {name: one, address: "127.0.0.1:2", filter_chains: [main]}\nfilter_chains:\n',
      ),
      ['p:3:5: a listener of the name "one" stands before it'],
    ],
    [
      'two listeners at an address',
      file().replace(
        'filter_chains:\n',
        '  - {name: two, address: "127.0.0.1:1", filter_chains: [main]}\nfilter_chains:\n',
      ),
      ['p:3:17: listener "two" has the address of the listener "one" (p:2:17); give it one of its own'],
    ],
    [
      'a listener in the way of another',
      file().replace('filter_chains:\n', '  - {name: two, address: "[::]:1", filter_chains: [main]}\nfilter_chains:\n'),
      ['p:3:17: listener "two" has the address of the listener "one" (p:2:17); give it one of its own'],
    ],
    [
      'two chains of a name',
      file('  - {name: main, filters: [{filter: mcp}]}'),
      ['p:8:5: a chain of the name "main" stands before it'],
    ],
    [
      'chains that are no list',
      'listeners: [{name: a, address: "h:1", filter_chains: [main]}]\nfilter_chains: {main: []}',
      ['p:2:1: filter_chains is not a list'],
    ],
    [
      'a chain without a name, which others may mean',
      file().replace('- name: main\n    ', '- '),
      ['p:4:5: filter_chains[0].name is missing'],
    ],
    ['a chain without filters', file('  - {name: b, filters: []}'), ['p:8:15: filter_chains[1].filters has no filter']],
    [
      'an unknown key of a chain',
      file('    filter: []'),
      ['p:8:5: filter_chains[0] has the unknown key "filter"; known keys: name, filters'],
    ],
    ['no filter under a dash', file('      -'), ['p:8:8: filter_chains[0].filters[2] has no value; a map is needed']],
    [
      'two clusters of a name',
      `${chain(ROUTER, BALANCER)}clusters: [{name: k, endpoints: ["h:1"]}]`,
      ['p:7:44: a cluster of the name "k" stands before it'],
    ],
    [
      'a cluster that is not there',
      chain('router, routes: [{path_prefix: /, cluster: kk}]', BALANCER),
      ['p:6:52: there is no cluster "kk"; clusters: "k"'],
    ],
    [
      'a cluster without endpoints',
      file('clusters: [{name: k, endpoints: []}]'),
      ['p:8:22: clusters[0].endpoints has no endpoint'],
    ],
    [
      'endpoints that are none',
      file('clusters: [{name: k, endpoints: [h, "h:0", "h:1 ", 5, {adress: "h:1"}, {address: "h:1", weight: 0}]}]'),
      [
        'p:8:34: clusters[0].endpoints[0].address has no port; accepted: host:port, such as 0.0.0.0:8080 or [::]:8080',
        'p:8:37: clusters[0].endpoints[1].address has port 0, which nothing can be reached at',
        'p:8:44: clusters[0].endpoints[2].address has a port that is not 0 to 65535; accepted: host:port, such as 0.0.0.0:8080 or [::]:8080',
        'p:8:52: clusters[0].endpoints[3] is not host:port or a map with address and weight',
        'p:8:55: clusters[0].endpoints[4].address is missing',
        'p:8:56: clusters[0].endpoints[4] has the unknown key "adress"; known keys: address, weight',
        'p:8:89: clusters[0].endpoints[5].weight is below 1',
      ],
    ],
    [
      'TLS to a cluster that is switched off',
      file('clusters: [{name: k, endpoints: ["h:1"], tls: false}]'),
      ['p:8:42: clusters[0].tls is not a map'],
    ],
    [
      'settings of TLS to a cluster',
      file('clusters: [{name: k, endpoints: ["h:1"], tls: {verify: false}}]'),
      ['p:8:48: clusters[0].tls has the unknown key "verify"; it has none'],
    ],
    [
      'no time to connect',
      file('clusters: [{name: k, endpoints: ["h:1"], connection_timeout_ms: 0}]'),
      ['p:8:42: clusters[0].connection_timeout_ms is below 1'],
    ],
    ['a key without a value', file('clusters:'), ['p:8:1: clusters has no value; a list is needed']],
    [
      'limits that are none',
      file('body_limits: {max_request_bytes: 4MiB, max_response_bytes: 0, max: 1}'),
      [
        'p:8:15: body_limits.max_request_bytes is not a number',
        'p:8:40: body_limits.max_response_bytes is below 1',
        'p:8:63: body_limits has the unknown key "max"; known keys: max_request_bytes, max_response_bytes',
      ],
    ],
    [
      'a time to stop that is too long',
      file('shutdown_timeout_secs: 86401'),
      ['p:8:1: shutdown_timeout_secs is above 86400'],
    ],
    [
      'insecure options that are none',
      file('insecure_options: {skip_validation: true, skip_pipeline_validation: 1}'),
      [
        'p:8:20: insecure_options has the unknown key "skip_validation"; known keys: skip_pipeline_validation',
        'p:8:43: insecure_options.skip_pipeline_validation is not true or false',
      ],
    ],
  ])('does not start with %s', (_what, text, lines) => {
    expect(complaints(text)).toEqual(lines);
  });

  it.each<[string, string, string[]]>([
    [
      'a service filter without mcp before it',
      chain('service_relay', 'mcp', 'service_relay'),
      ['p:6:9: filter service_relay needs the filter mcp, without conditions, somewhere before it'],
    ],
    [
      'a service filter behind an mcp that requests may pass by',
      chain('mcp, conditions: [{unless: {path: /up}}]', 'service_relay', 'mcp', 'service_tool_list'),
      ['p:7:9: filter service_relay needs the filter mcp, without conditions, somewhere before it'],
    ],
    [
      'a filter behind a static response without conditions',
      chain('static_response, status: 200', 'headers', 'mcp'),
      ['p:7:9: filter headers and all behind it are never reached: give the static_response before it conditions'],
    ],
    [
      'a load balancer without router',
      chain('service_intercept', BALANCER, ROUTER, BALANCER.replace('name: k', 'name: m')),
      ['p:7:9: filter load_balancer needs the filter router somewhere before it'],
    ],
  ])('does not start with %s, unless it says so', (_what, text, lines) => {
    expect(complaints(text)).toEqual(lines);
    expect(pipelineOf(`${text}insecure_options: {skip_pipeline_validation: true}`).warnings).toEqual(
      expect.arrayContaining(lines),
    );
    expect(complaints(`${text}insecure_options: {skip_pipeline_validation: false}`)).toEqual(lines);
  });

  it('has no mistake of order where conditions or other chains make it good', () => {
    expect(
      pipelineOf(chain('static_response, status: 200, conditions: [{when: {path: /up}}]', 'mcp', 'service_relay'))
        .warnings,
    ).toEqual([]);
    expect(
      pipelineOf(`listeners: [{name: one, address: "h:1", filter_chains: [a, b]}]
filter_chains: [{name: b, filters: [{filter: service_relay}]}, {name: a, filters: [{filter: mcp}]}]`).warnings,
    ).toEqual([]);
  });

  it('forgives nothing but the order', () => {
    const lenient = 'insecure_options: {skip_pipeline_validation: true}\n';
    expect(complaints(lenient + file('x: 1'))).toHaveLength(1);
    expect(complaints(lenient + file().replace('[main]', '[gone]'))).toHaveLength(1);
  });

  it('warns of what has no effect', () => {
    const text = `${chain(ROUTER)}  - {name: spare, filters: [{filter: service_relay}]}
clusters: [{name: k, endpoints: ["h:1"]}, {name: m, endpoints: ["h:2"]}]
admin: {address: "h:1"}
runtime: 5`;
    expect(pipelineOf(text).warnings).toEqual([
      'p:6:9: filter router has no effect without load_balancer behind it',
      'p:7:5: chain "spare" has no effect: no listener names it',
      'p:8:43: cluster "m" has no effect: no route names it',
      'p:9:1: admin has no effect',
      'p:10:1: runtime has no effect',
    ]);
  });

  it('warns of completions that are to be recorded where none are sent on behind', () => {
    const idle = 'filter service_intercept has no effect without load_balancer behind it';
    expect(pipelineOf(chain('service_intercept', 'static_response, status: 200')).warnings).toEqual([`p:6:9: ${idle}`]);
    expect(pipelineOf(chain(ROUTER, BALANCER, 'service_intercept')).warnings).toEqual([`p:8:9: ${idle}`]);
    expect(pipelineOf(chain(ROUTER, 'service_intercept', BALANCER)).warnings).toEqual([]);
    // Chains are put behind each other.
    const apart = file('  - {name: pre, filters: [{filter: service_intercept}]}').replace('[main]', '[pre, main]');
    expect(pipelineOf(apart).warnings).toEqual([`p:8:27: ${idle}`]);
  });

  describe('warns of an evaluator filter', () => {
    const at = (line: number) => `p:${line}:9: listener "one", chain "main": filter service_evaluator`;
    const unnamed = 'judges no request without service_namespace before it: put it behind that';

    it.each<[string, string[], string[]]>([
      ['in front of the namespace', ['mcp', 'service_evaluator', 'service_namespace'], [`${at(7)} ${unnamed}`]],
      ['without namespace', ['mcp', 'service_evaluator', 'service_relay'], [`${at(7)} ${unnamed}`]],
      [
        'behind what answers',
        ['mcp', 'service_namespace', 'service_tool_list', 'service_tool_call', 'service_evaluator', 'service_relay'],
        [`${at(10)} judges nothing of what is answered before it: put it before service_tool_list, service_tool_call`],
      ],
      ['in its place', ['mcp', 'service_namespace', 'service_well_known', 'service_evaluator', 'service_relay'], []],
      [
        'behind what answers some requests, by its conditions',
        ['mcp', 'service_namespace', 'service_relay, conditions: [{when: {path: /up}}]', 'service_evaluator'],
        [],
      ],
      [
        'behind another one',
        ['mcp', 'service_namespace', 'service_evaluator', 'service_relay', 'service_evaluator'],
        [],
      ],
    ])('%s', (_where, filters, warnings) => {
      expect(pipelineOf(chain(...filters)).warnings).toEqual(warnings);
    });

    it('at each listener where it is so', () => {
      const filters = (...names: string[]) => `filters: [${names.map((name) => `{filter: ${name}}`).join(', ')}]`;
      const text = `listeners:
  - {name: one, address: "h:1", filter_chains: [a, b, c]}
  - {name: two, address: "h:2", filter_chains: [a, c, b]}
filter_chains:
  - {name: a, ${filters('mcp', 'service_namespace')}}
  - {name: b, ${filters('service_relay')}}
  - {name: c, ${filters('service_evaluator')}}`;
      expect(pipelineOf(text).warnings).toEqual([
        'p:7:25: listener "one", chain "c": filter service_evaluator judges nothing of what is answered before it: put it before service_relay',
      ]);
    });
  });

  it('ends the start with its first mistake and the number of the others', () => {
    const stopped = () => parsePipeline(file('x: 1').replace('[main]', '[gone, away]'), 'p');
    expect(stopped).toThrow(ConfigError);
    expect(stopped).toThrow(
      /^p:2:57: there is no chain "gone"; chains: "main" \(and 2 more; sluice pipeline check lists all\)$/,
    );
  });
});
