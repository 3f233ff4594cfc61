import { describe, expect, it } from 'vitest';
import { findRestricted } from './restricted.ts';

/** Lines that only some files may have, with one of these. */
const RESTRICTED: readonly (readonly [line: string, allowed: string])[] = [
  ["const user = headers['x-forwarded-user'];", 'identity/proxy-headers.ts'],
  ["const { 'X-Auth-Request-User': user } = headers;", 'identity/proxy-headers.ts'],
  ['const token = request.headers.authorization;', 'mcp/oauth-metadata.ts'],
  ["const token = headers['authorization'];", 'mcp/oauth-metadata.ts'],
  ["const token = headers.get('authorization');", 'mcp/oauth-metadata.ts'],
  ['const { authorization } = headers;', 'mcp/oauth-metadata.ts'],
  ["const { 'content-type': type, authorization } = headers;", 'mcp/oauth-metadata.ts'],
  ['const { authorization: token } = headers;', 'mcp/oauth-metadata.ts'],
  ['    authorization,', 'mcp/oauth-metadata.ts'],
  ['const channel = {} as unknown as Channel;', 'upstreams/grpc/channels.ts'],
  ["const tool = namespace.indexes.tool.get('a');", 'access/access.ts'],
  ['function toolOf({ indexes }: NamespaceState): Entry {', 'registry/snapshot.ts'],
  ['for (const { name, indexes: { tool } } of namespaces) {', 'policy/registry-view.ts'],
  ['  indexes,', 'access/access.ts'],
  ['    writer.openStream = () => events.open(session);', 'telemetry/otlp.ts'],
  ['    this.#onIdle = async ({ key }, next) => {', 'telemetry/otlp.ts'],
  ['    calls[id].end ??= (done => done());', 'telemetry/otlp.ts'],
];

const findingsOf = (path: string, line: string): string[] =>
  findRestricted(new Map([[path, `// First line.\n${line}\n`]])).filter((finding) =>
    finding.startsWith(`packages/${path}:2: `),
  );

describe('text that only some files may have', () => {
  it.each(RESTRICTED)('%s', (line, allowed) => {
    expect(findingsOf('server/src/mcp/listener.ts', line)).toHaveLength(1);
    expect(findingsOf('http/src/server.ts', line)).toHaveLength(1);
    expect(findingsOf(`server/src/${allowed}`, line)).toEqual([]);
  });

  it.each(['const permit = {} as Permit;', 'send({} as never);'])('nowhere: %s', (line) => {
    expect(findingsOf('server/src/access/access.ts', line)).toHaveLength(1);
  });

  it.each([
    '// It requires a token of the authorization server.',
    "  'proxy-authorization',",
    "  authorization_servers: ['https://login.example'],",
    'const known = found as Known;',
    'readonly #indexes = new Map<Namespace, Partial<Record<Kind, DraftIndex>>>();',
    'const openStream = () => events.open(session);',
    'writer.openStream = openStream;',
    'this.done = items.map((item) => item.done);',
  ])('is not %s', (line) => {
    expect(findingsOf('server/src/mcp/listener.ts', line)).toEqual([]);
  });

  const rule = { pattern: /secret/, allowed: ['server/src/identity/', 'server/src/app.ts'], reason: 'use a reference' };
  const found = (...paths: string[]) => findRestricted(new Map(paths.map((path) => [path, 'secret'])), [rule]);

  it('is allowed in a folder', () => {
    expect(found('server/src/identity/a.ts', 'server/src/app.ts', 'server/src/identity.ts')).toEqual([
      'packages/server/src/identity.ts:1: secret: use a reference',
    ]);
  });

  it('is reported in an allowed file that does not have it', () => {
    expect(found('server/src/app.ts')).toEqual([
      'packages/server/src/identity/: has no /secret/: remove it from this rule',
    ]);
  });
});
