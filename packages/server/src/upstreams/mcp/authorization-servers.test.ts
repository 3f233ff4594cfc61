import { createServer } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { startTestService } from '../../../testing/service.ts';

const METADATA = '/.well-known/oauth-protected-resource';
const LOGIN = { authorization_servers: ['https://login.example.com/', 'https://sso.example.org/realms/a?secret=x'] };
const NAMED =
  /token of the authorization server https:\/\/login\.example\.com or https:\/\/sso\.example\.org\/realms\/a: get/;
const UNNAMED = /; set its credentials in "headers" of the forward; retrying/;

/** The address of a server that requires a login, with files by path. */
async function guarded(files: Readonly<Record<string, unknown>>): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    const file = files[url];
    if (file === undefined) return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    response.setHeader('content-type', 'application/json').end(typeof file === 'string' ? file : JSON.stringify(file));
  });
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${await listen(server, 0)}/mcp`;
}

it.each([
  ['at its path', { [`${METADATA}/mcp`]: LOGIN }, NAMED],
  ['at the root', { [METADATA]: LOGIN }, NAMED],
  ['without servers', { [METADATA]: {} }, UNNAMED],
  [
    'with servers that are no URLs',
    { [METADATA]: { authorization_servers: ['login', 7, 'javascript:alert(1)'] } },
    UNNAMED,
  ],
  ['that are no JSON', { [METADATA]: '<html>' }, UNNAMED],
  ['that do not exist', {}, UNNAMED],
])('a server that requires a login, with metadata %s', async (_where, files, expected) => {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const address = await guarded(files);
  await service.register('forwards', { name: 'f', address });
  const { data } = await service.manage('GET', '/forwards/f');
  expect(Object(data).statusMessage).toMatch(expected);
  const tested = await service.manage('POST', '/forwards/test', { address });
  const { steps } = Object(tested.data);
  const remedy = Object(steps.find(({ status }: { status: string }) => status === 'failed')).remedy;
  expect(`; ${remedy}; retrying`).toMatch(expected === NAMED ? NAMED : UNNAMED);
});
