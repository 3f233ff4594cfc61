import { describe, expect, it } from 'vitest';
import { checkPipeline } from './parse.ts';
import type { FilterSettings } from './schema.ts';

/** Parsed settings of a filter with this YAML, in a valid chain. */
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

/** Problems of a filter with this YAML; columns count from its brace. */
function problemsOf(filter: string): string[] {
  const head = 'filter_chains: [{name: c, filters: [{filter: mcp}, ';
  const checked = checkPipeline(
    `${head}{${filter}}]}]\nlisteners: [{name: l, address: "127.0.0.1:1", filter_chains: [c]}]`,
    'p.yaml',
  );
  if ('pipeline' in checked) throw new Error('accepted');
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
    ['filter: service_methods', { filter: 'service_methods' }],
    [
      'filter: service_methods, mcp_methods: [tools/list, skills/get]',
      { filter: 'service_methods', mcp_methods: ['tools/list', 'skills/get'] },
    ],
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
      'filter: service_methods, conditions: [{when: {path: /a, path_prefix: /, methods: [GET], headers: {Host: h}}}, {unless: {path: /b}}]',
      {
        filter: 'service_methods',
        conditions: [
          { when: { path: '/a', path_prefix: '/', methods: ['GET'], headers: { Host: 'h' } } },
          { unless: { path: '/b' } },
        ],
      },
    ],
  ])('are parsed with defaults: %s', (text, settings) => {
    expect(settingsOf(text)).toEqual(settings);
  });

  const names =
    'known filters: cors, mcp, static_response, router, load_balancer, headers, path_rewrite, service_methods, service_namespace, service_well_known, ' +
    'service_evaluator, service_intercept';

  it.each<[string, string[]]>([
    ['filter: corse', [`1:2: F.filter must be a known filter; ${names}`]],
    ['filtre: cors', [`1:1: F.filter is missing; ${names}`]],
    ['filter: 7', [`1:2: F.filter must be a known filter; ${names}`]],
    ['filter: toString', [`1:2: F.filter must be a known filter; ${names}`]],
    [
      'filter: service_methods, status: 2',
      ['1:27: F.status is not a known field; known fields: filter, mcp_methods, conditions'],
    ],
    [
      'filter: service_methods, mcp_methods: [tools/list, tools/lists]',
      [expect.stringMatching(/^1:53: F\.mcp_methods\[1\] must be a known method; known methods: initialize, /)],
    ],
    ['filter: service_methods, mcp_methods: []', ['1:27: F.mcp_methods must name at least one method']],
    ['filter: service_methods, __proto__: {}', ['1:27: __proto__ is not a known field']],
    [
      'filter: service_methods, <<: {status: 2}',
      ['1:27: F["<<"] is not a known field; known fields: filter, mcp_methods, conditions'],
    ],
    ['filter: cors', ['1:1: F.allow_origins is missing']],
    ['filter: cors, allow_origins: "*"', ['1:16: F.allow_origins must be a list']],
    ['filter: cors, allow_origins: []', ['1:16: F.allow_origins must name at least one origin']],
    [
      'filter: cors, allow_origins: [https://a/b]',
      [
        '1:32: F.allow_origins[0] has a path; expected *, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
      ],
    ],
    [
      'filter: cors, allow_origins: ["https://a.*"]',
      [
        '1:32: F.allow_origins[0] has a * outside of a leading subdomain; expected *, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
      ],
    ],
    [
      'filter: cors, allow_origins: [https://a, "*"], allow_credentials: true',
      ['1:49: F.allow_credentials must not be true if allow_origins contains *; list the origins'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_credentials: "true"',
      ['1:38: F.allow_credentials must be true or false; remove the quotes'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_methods: [get]',
      ['1:54: F.allow_methods[0] must be a method in capital letters, such as GET'],
    ],
    [
      'filter: cors, allow_origins: ["*"], allow_headers: [a*b, "c d"]',
      [
        '1:54: F.allow_headers[0] must not have a * except at the end',
        '1:59: F.allow_headers[1] must be a header name',
      ],
    ],
    [
      'filter: cors, allow_origins: ["*"], expose_headers: [1]',
      ['1:55: F.expose_headers[0] must be a string; quote it'],
    ],
    ['filter: cors, allow_origins: ["*"], max_age: -1', ['1:38: F.max_age must be at least 0']],
    ['filter: cors, allow_origins: ["*"], max_age: 1.5', ['1:38: F.max_age must be a whole number']],
    [
      'filter: cors, allow_origins: ["*"], disallowed_origin_mode: drop',
      ['1:38: F.disallowed_origin_mode must be omit or reject'],
    ],
    ['filter: cors, allow_origins: ["*"], allow_null_origin: 1', ['1:38: F.allow_null_origin must be true or false']],
    ['filter: mcp, on_invalid: false', ['1:15: F.on_invalid must be continue or reject']],
    ['filter: mcp, max_body_bytes: "5"', ['1:15: F.max_body_bytes must be a number; remove the quotes']],
    ['filter: mcp, max_body_bytes: 0', ['1:15: F.max_body_bytes must be at least 1']],
    ['filter: mcp, max_body_bytes: 2147483649', ['1:15: F.max_body_bytes must be at most 2147483648']],
    ['filter: static_response', ['1:1: F.status is missing']],
    ['filter: static_response, status: 100', ['1:27: F.status must be at least 200']],
    ['filter: static_response, status: 600', ['1:27: F.status must be at most 599']],
    ['filter: static_response, status: 304, body: x', ['1:40: F.body must not be set with status 204, 205 or 304']],
    [
      'filter: static_response, status: 200, headers: [{name: a}, {name: "a b", value: "1\\n2"}]',
      [
        '1:50: F.headers[0].value is missing',
        '1:62: F.headers[1].name must be a header name',
        '1:75: F.headers[1].value must not have invalid characters or surrounding spaces',
      ],
    ],
    [
      'filter: static_response, status: 200, headers: [{name: content-length, value: "0"}]',
      ['1:51: F.headers[0].name must not be a header that the server sets itself'],
    ],
    ['filter: static_response, status: 200, body: 7', ['1:40: F.body must be a string; quote it']],
    ['filter: router', ['1:1: F.routes is missing']],
    ['filter: router, routes: []', ['1:18: F.routes must have at least one route']],
    [
      'filter: router, routes: [{path_prefix: a, host: "a,b", headers: {x: 1, X: b}}]',
      [
        '1:27: F.routes[0].cluster is missing',
        '1:28: F.routes[0].path_prefix must be a path that starts with / and is percent-encoded',
        '1:44: F.routes[0].host contains several hosts; expected host, host:port, [ipv6] or [ipv6]:port',
        '1:67: F.routes[0].headers.x must be a string; quote it',
      ],
    ],
    [
      'filter: router, routes: [{path_prefix: /, headers: {x: a, X: b}, cluster: k}]',
      ['1:60: F.routes[0].headers.X is a duplicate', '1:67: unknown cluster "k"; known clusters: none'],
    ],
    [
      'filter: router, routes: [{path_prefix: /?a, cluster: ""}]',
      [
        '1:28: F.routes[0].path_prefix must be a path that starts with / and is percent-encoded',
        '1:46: F.routes[0].cluster must not be empty',
      ],
    ],
    [
      'filter: headers, request_add: [{name: Host, value: a}], response_remove: [Connection, 7]',
      [
        '1:34: F.request_add[0].name must not be a header that the server sets itself',
        '1:76: F.response_remove[0] must not be a header that the server sets itself',
        '1:88: F.response_remove[1] must be a string; quote it',
      ],
    ],
    ['filter: headers, response_set: {name: a, value: b}', ['1:19: F.response_set must be a list']],
    ['filter: path_rewrite', ['1:1: F must have exactly one of strip_prefix, add_prefix, replace']],
    [
      'filter: path_rewrite, add_prefix: /a, strip_prefix: /b',
      ['1:1: F must have exactly one of strip_prefix, add_prefix, replace'],
    ],
    [
      'filter: path_rewrite, replace: {pattern: "(", replacement: 1}',
      [
        '1:34: F.replace.pattern must be a regular expression',
        '1:48: F.replace.replacement must be a string; quote it',
      ],
    ],
    [
      'filter: path_rewrite, replace: {pattern: a, replacement: "/a b"}',
      ['1:46: F.replace.replacement must not have characters that are invalid in a path'],
    ],
    [
      'filter: path_rewrite, add_prefix: /é',
      ['1:24: F.add_prefix must be a path that starts with / and is percent-encoded'],
    ],
    ['filter: service_methods, conditions: {when: {path: /}}', ['1:27: F.conditions must be a list']],
    ['filter: service_methods, conditions: [{}]', ['1:40: F.conditions[0] must have when or unless']],
    [
      'filter: service_methods, conditions: [{when: {}}]',
      ['1:41: F.conditions[0].when must have at least one of path, path_prefix, methods, headers'],
    ],
    [
      'filter: service_methods, conditions: [{when: {path: /}, unless: {path: /}}]',
      ['1:40: F.conditions[0] has both when and unless; use two conditions'],
    ],
    [
      'filter: service_methods, conditions: [{if: {path: /}}]',
      [
        '1:40: F.conditions[0] must have when or unless',
        '1:41: F.conditions[0].if is not a known field; known fields: when, unless',
      ],
    ],
    [
      'filter: service_methods, conditions: [{when: {methods: [], query: a}}]',
      [
        '1:48: F.conditions[0].when.methods must name at least one method',
        '1:61: F.conditions[0].when.query is not a known field; known fields: path, path_prefix, methods, headers',
      ],
    ],
    [
      'filter: service_methods, conditions: [{when: {headers: {"a b": c, "d\\n": e}}}]',
      [
        '1:58: F.conditions[0].when.headers["a b"] must be a header name',
        '1:68: F.conditions[0].when.headers["d\\n"] must be a header name',
      ],
    ],
  ])('are rejected: %s', (text, lines) => {
    expect(problemsOf(text)).toEqual(lines);
  });
});
