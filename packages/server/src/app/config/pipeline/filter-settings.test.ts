import { describe, expect, it } from 'vitest';
import { checkPipeline } from './parse.ts';
import type { FilterSettings } from './schema.ts';

/** The settings of the filter that stands there in this way, in a chain where it may stand. */
function settingsOf(filter: string): FilterSettings {
  const checked = checkPipeline(
    `listeners: [{name: l, address: "127.0.0.1:1", filter_chains: [c]}]
filter_chains: [{name: c, filters: [{filter: mcp}, {filter: router, routes: [{path_prefix: /, cluster: k}]}, {${filter}}]}]
clusters: [{name: k, endpoints: ["127.0.0.1:2"]}]`,
    'p.yaml',
  );
  if ('problems' in checked) throw new Error(JSON.stringify(checked.problems));
  const [, , last] = checked.pipeline.listeners[0]?.filters ?? [];
  if (!last) throw new Error('no filter');
  return last.settings;
}

/** What is wrong with a filter that stands there in this way; columns count from its brace. */
function complaints(filter: string): string[] {
  const head = 'filter_chains: [{name: c, filters: [{filter: mcp}, ';
  const checked = checkPipeline(
    `${head}{${filter}}]}]\nlisteners: [{name: l, address: "127.0.0.1:1", filter_chains: [c]}]`,
    'p.yaml',
  );
  if ('pipeline' in checked) throw new Error('it is taken');
  return checked.problems.map(
    ({ at, text }) => `${at.line}:${at.column - head.length}: ${text.replaceAll('filter_chains[0].filters[1]', 'F')}`,
  );
}

describe('settings of filters', () => {
  it.each<[string, FilterSettings]>([
    [
      'filter: cors, allow_origins: ["*"]',
      {
        filter: 'cors',
        allow_origins: ['*'],
        allow_methods: ['GET', 'HEAD', 'POST'],
        allow_headers: [],
        expose_headers: [],
        allow_credentials: false,
        max_age: 86_400,
        disallowed_origin_mode: 'omit',
        allow_null_origin: false,
      },
    ],
    [
      'filter: cors, allow_origins: ["https://A.b:443", "https://*.B.c", "app://x"], allow_methods: [PUT], allow_headers: [X-A, "X-B-*", "*"], ' +
        'expose_headers: [X-C], allow_credentials: true, max_age: 0, disallowed_origin_mode: reject, allow_null_origin: true',
      {
        filter: 'cors',
        allow_origins: ['https://a.b', 'https://*.b.c', 'app://x'],
        allow_methods: ['PUT'],
        allow_headers: ['X-A', 'X-B-*', '*'],
        expose_headers: ['X-C'],
        allow_credentials: true,
        max_age: 0,
        disallowed_origin_mode: 'reject',
        allow_null_origin: true,
      },
    ],
    ['filter: mcp', { filter: 'mcp', on_invalid: 'continue' }],
    [
      'filter: mcp, on_invalid: reject, max_body_bytes: 17',
      { filter: 'mcp', on_invalid: 'reject', max_body_bytes: 17 },
    ],
    ['filter: service_relay', { filter: 'service_relay' }],
    ['filter: static_response, status: 204', { filter: 'static_response', status: 204, headers: [], body: '' }],
    [
      'filter: static_response, status: 200, headers: [{name: X-A, value: "1, 2"}], body: "ok\\n"',
      { filter: 'static_response', status: 200, headers: [{ name: 'X-A', value: '1, 2' }], body: 'ok\n' },
    ],
    ['filter: service_intercept', { filter: 'service_intercept' }],
    [
      'filter: router, routes: [{path_prefix: /a, host: "[::1]:80", headers: {X-A: b}, cluster: k}, {path_prefix: /, host: A.b, cluster: k}]',
      {
        filter: 'router',
        routes: [
          { path_prefix: '/a', host: '[::1]:80', headers: { 'X-A': 'b' }, cluster: 'k' },
          { path_prefix: '/', host: 'a.b', cluster: 'k' },
        ],
      },
    ],
    ['filter: load_balancer', { filter: 'load_balancer', clusters: [] }],
    [
      'filter: load_balancer, clusters: [{name: m, endpoints: ["h:1", {address: "[::1]:2", weight: 3}], tls: {}, connection_timeout_ms: 5}, ' +
        '{name: n, endpoints: [{address: "h:1"}], tls: }]',
      {
        filter: 'load_balancer',
        clusters: [
          {
            name: 'm',
            endpoints: [
              { address: { host: 'h', port: 1 }, weight: 1 },
              { address: { host: '::1', port: 2 }, weight: 3 },
            ],
            tls: {},
            connection_timeout_ms: 5,
          },
          { name: 'n', endpoints: [{ address: { host: 'h', port: 1 }, weight: 1 }], tls: {} },
        ],
      },
    ],
    [
      'filter: headers',
      { filter: 'headers', request_add: [], response_add: [], response_set: [], response_remove: [] },
    ],
    [
      'filter: headers, request_add: [{name: A, value: "1"}], response_add: [{name: B, value: ""}], response_set: [{name: C, value: é}], response_remove: [D]',
      {
        filter: 'headers',
        request_add: [{ name: 'A', value: '1' }],
        response_add: [{ name: 'B', value: '' }],
        response_set: [{ name: 'C', value: 'é' }],
        response_remove: ['D'],
      },
    ],
    ['filter: path_rewrite, strip_prefix: /a', { filter: 'path_rewrite', strip_prefix: '/a' }],
    ['filter: path_rewrite, add_prefix: /a', { filter: 'path_rewrite', add_prefix: '/a' }],
    [
      'filter: path_rewrite, replace: {pattern: "^/(\\\\w+)", replacement: "/$1"}',
      { filter: 'path_rewrite', replace: { pattern: '^/(\\w+)', replacement: '/$1' } },
    ],
    [
      'filter: service_tool_list, conditions: [{when: {path: /a, path_prefix: /, methods: [GET], headers: {Host: h}}}, {unless: {path: /b}}]',
      {
        filter: 'service_tool_list',
        conditions: [
          { when: { path: '/a', path_prefix: '/', methods: ['GET'], headers: { Host: 'h' } } },
          { unless: { path: '/b' } },
        ],
      },
    ],
  ])('are those that %s names, and defaults', (text, settings) => {
    expect(settingsOf(text)).toEqual(settings);
  });

  const names =
    'filters: cors, mcp, static_response, router, load_balancer, headers, path_rewrite, service_namespace, service_well_known, ' +
    'service_mcp_init, service_subscribe, service_completion, service_relay, service_evaluator, service_tool_list, service_tool_call, ' +
    'service_resource_list, service_resource_read, service_prompt_list, service_prompt_get, service_intercept';

  it.each<[string, string[]]>([
    ['filter: corse', [`1:2: F.filter is not the name of a filter; ${names}`]],
    ['filtre: cors', [`1:1: F.filter is missing; ${names}`]],
    ['filter: 7', [`1:2: F.filter is not the name of a filter; ${names}`]],
    ['filter: toString', [`1:2: F.filter is not the name of a filter; ${names}`]],
    ['filter: service_relay, status: 2', ['1:25: F has the unknown key "status"; known keys: filter, conditions']],
    ['filter: service_relay, __proto__: {}', ['1:25: has the unknown key "__proto__"']],
    ['filter: service_relay, <<: {status: 2}', ['1:25: F has the unknown key "<<"; known keys: filter, conditions']],
    ['filter: cors', ['1:1: F.allow_origins is missing']],
    ['filter: cors, allow_origins: "*"', ['1:16: F.allow_origins is not a list']],
    ['filter: cors, allow_origins: []', ['1:16: F.allow_origins names no origin']],
    [
      'filter: cors, allow_origins: [https://a/b]',
      [
        '1:32: F.allow_origins[0] has a path; accepted: *, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
      ],
    ],
    [
      'filter: cors, allow_origins: ["https://a.*"]',
      [
        '1:32: F.allow_origins[0] has a * in a place of its own; accepted: *, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
      ],
    ],
    [
      'filter: cors, allow_origins: [https://a, "*"], allow_credentials: true',
      ['1:49: F.allow_credentials cannot be true while allow_origins has *; name the origins'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_credentials: "true"',
      ['1:38: F.allow_credentials is not true or false; leave the quotes out'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_methods: [get]',
      ['1:54: F.allow_methods[0] is not a method in capital letters, such as GET'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_headers: [a*b, "c d"]',
      ['1:54: F.allow_headers[0] has a * that is not at its end', '1:59: F.allow_headers[1] is not a header name'],
    ],
    [
      'filter: cors, allow_origins: ["*"], expose_headers: [1]',
      ['1:55: F.expose_headers[0] is not a string; quote it'],
    ],
    ['filter: cors, allow_origins: ["*"], max_age: -1', ['1:38: F.max_age is below 0']],
    ['filter: cors, allow_origins: ["*"], max_age: 1.5', ['1:38: F.max_age is not a whole number']],
    [
      'filter: cors, allow_origins: ["*"], disallowed_origin_mode: drop',
      ['1:38: F.disallowed_origin_mode is not omit or reject'],
    ],
    ['filter: cors, allow_origins: ["*"], allow_null_origin: 1', ['1:38: F.allow_null_origin is not true or false']],
    ['filter: mcp, on_invalid: false', ['1:15: F.on_invalid is not continue or reject']],
    ['filter: mcp, max_body_bytes: "5"', ['1:15: F.max_body_bytes is not a number; leave the quotes out']],
    ['filter: mcp, max_body_bytes: 0', ['1:15: F.max_body_bytes is below 1']],
    ['filter: mcp, max_body_bytes: 2147483649', ['1:15: F.max_body_bytes is above 2147483648']],
    ['filter: static_response', ['1:1: F.status is missing']],
    ['filter: static_response, status: 100', ['1:27: F.status is below 200']],
    ['filter: static_response, status: 600', ['1:27: F.status is above 599']],
    [
      'filter: static_response, status: 304, body: x',
      ['1:40: F.body cannot be sent with status 204, 205 or 304, which have none'],
    ],
    [
      'filter: static_response, status: 200, headers: [{name: a}, {name: "a b", value: "1\\n2"}]',
      [
        '1:50: F.headers[0].value is missing',
        '1:62: F.headers[1].name is not a header name',
        '1:75: F.headers[1].value has characters that a header cannot have, or blanks at an end',
      ],
    ],
    [
      'filter: static_response, status: 200, headers: [{name: content-length, value: "0"}]',
      ['1:51: F.headers[0].name is a header that only the connection itself sets'],
    ],
    ['filter: static_response, status: 200, body: 7', ['1:40: F.body is not a string; quote it']],
    ['filter: router', ['1:1: F.routes is missing']],
    ['filter: router, routes: []', ['1:18: F.routes has no route']],
    [
      'filter: router, routes: [{path_prefix: a, host: "a,b", headers: {x: 1, X: b}}]',
      [
        '1:27: F.routes[0].cluster is missing',
        '1:28: F.routes[0].path_prefix is not a path: / and then characters as they are sent, others as %20 and the like',
        '1:44: F.routes[0].host names several hosts; accepted: host, host:port, [ipv6] or [ipv6]:port',
        '1:67: F.routes[0].headers.x is not a string; quote it',
      ],
    ],
    [
      'filter: router, routes: [{path_prefix: /, headers: {x: a, X: b}, cluster: k}]',
      ['1:60: F.routes[0].headers.X stands there twice', '1:67: there is no cluster "k"; clusters: none'],
    ],
    [
      'filter: router, routes: [{path_prefix: /?a, cluster: ""}]',
      [
        '1:28: F.routes[0].path_prefix is not a path: / and then characters as they are sent, others as %20 and the like',
        '1:46: F.routes[0].cluster is empty',
      ],
    ],
    [
      'filter: headers, request_add: [{name: Host, value: a}], response_remove: [Connection, 7]',
      [
        '1:34: F.request_add[0].name is a header that only the connection itself sets',
        '1:76: F.response_remove[0] is a header that only the connection itself sets',
        '1:88: F.response_remove[1] is not a string; quote it',
      ],
    ],
    ['filter: headers, response_set: {name: a, value: b}', ['1:19: F.response_set is not a list']],
    ['filter: path_rewrite', ['1:1: F needs exactly one of strip_prefix, add_prefix, replace']],
    [
      'filter: path_rewrite, add_prefix: /a, strip_prefix: /b',
      ['1:1: F needs exactly one of strip_prefix, add_prefix, replace'],
    ],
    [
      'filter: path_rewrite, replace: {pattern: "(", replacement: 1}',
      ['1:34: F.replace.pattern is not a regular expression', '1:48: F.replace.replacement is not a string; quote it'],
    ],
    [
      'filter: path_rewrite, replace: {pattern: a, replacement: "/a b"}',
      ['1:46: F.replace.replacement has characters that a path cannot have'],
    ],
    [
      'filter: path_rewrite, add_prefix: /é',
      ['1:24: F.add_prefix is not a path: / and then characters as they are sent, others as %20 and the like'],
    ],
    ['filter: service_relay, conditions: {when: {path: /}}', ['1:25: F.conditions is not a list']],
    ['filter: service_relay, conditions: [{}]', ['1:38: F.conditions[0] has neither when nor unless']],
    [
      'filter: service_relay, conditions: [{when: {}}]',
      ['1:39: F.conditions[0].when has none of path, path_prefix, methods, headers'],
    ],
    [
      'filter: service_relay, conditions: [{when: {path: /}, unless: {path: /}}]',
      ['1:38: F.conditions[0] has both when and unless; make two conditions of it'],
    ],
    [
      'filter: service_relay, conditions: [{if: {path: /}}]',
      [
        '1:38: F.conditions[0] has neither when nor unless',
        '1:39: F.conditions[0] has the unknown key "if"; known keys: when, unless',
      ],
    ],
    [
      'filter: service_relay, conditions: [{when: {methods: [], query: a}}]',
      [
        '1:46: F.conditions[0].when.methods names no method',
        '1:59: F.conditions[0].when has the unknown key "query"; known keys: path, path_prefix, methods, headers',
      ],
    ],
    [
      'filter: service_relay, conditions: [{when: {headers: {"a b": c, "d\\n": e}}}]',
      [
        '1:56: F.conditions[0].when.headers["a b"] is not a header name',
        '1:66: F.conditions[0].when.headers["d\\n"] is not a header name',
      ],
    ],
  ])('are refused where %s is wrong', (text, lines) => {
    expect(complaints(text)).toEqual(lines);
  });
});
