import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { quickjsComponent } from '../../packages/server/src/policy/sandbox/fixtures/quickjs-component.ts';
import { type ChatCompletions, startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import { type BootedSystemd, bootSystemd } from '../fixtures/booted-systemd.ts';
import { debianSystem } from '../fixtures/debian-system.ts';
import { imagePrograms } from '../fixtures/deploy-programs.ts';
import { echoJavascript } from '../fixtures/evaluated/echo-javascript.ts';
import { freePort } from '../fixtures/free-port.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');

const isPossible = imagePrograms.find() !== undefined && process.getuid?.() === 0;
if (!isPossible) console.error('skipped: the service in systemd; run as root with the Debian package mmdebstrap');

// The commands of docs/deployment.md in a Debian system, under the real systemd.
describe.runIf(isPossible)('the service in systemd', () => {
  let folder: string;
  let system: BootedSystemd;
  let upstream: RawUpstream;
  let llm: ChatCompletions;
  let management: string;
  let mcp: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-boot-'));
    const root = join(folder, 'root');
    const sluice = join(root, 'opt/sluice');
    await mkdir(root);
    await run('tar', ['xf', await debianSystem(), '-C', root]);
    const packed = await run(process.execPath, ['scripts/pack.ts', folder], { cwd: ROOT });
    await mkdir(sluice);
    await run('tar', ['xzf', packed.stdout.trim(), '-C', sluice, '--strip-components=1']);
    await run('npm', ['install', '--prefix', sluice, '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund']);
    await run('cp', [join(ROOT, 'deploy/systemd/sluice.service'), join(root, 'etc/systemd/system')]);

    upstream = await startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('greet')), 'tools/call': () => textResultText('hello') },
    });
    llm = await startChatCompletions();
    management = `127.0.0.1:${await freePort()}`;
    mcp = `127.0.0.1:${await freePort()}`;
    const configuration = join(root, 'etc/sluice');
    await mkdir(join(configuration, 'secrets'), { recursive: true });
    const settings = [
      `SERVICE_MGMT_LISTEN=${management}`,
      `SERVICE_MCP_LISTEN=${mcp}`,
      'SERVICE_INFERENCE_LISTEN=127.0.0.1:0',
    ];
    await writeFile(join(configuration, 'sluice.env'), settings.join('\n'), { mode: 0o600 });
    await writeFile(join(configuration, 'secrets/crm-token'), 'the-token', { mode: 0o600 });
    await writeFile(join(configuration, 'echo.wasm'), await quickjsComponent(echoJavascript, 'small'));
    await writeFile(join(configuration, 'service.yaml'), JSON.stringify(bootstrap(upstream.url, llm.url)));
    const override = join(root, 'etc/systemd/system/sluice.service.d');
    await mkdir(override);
    await writeFile(
      join(override, 'override.conf'),
      `[Service]
LoadCredential=crm-token:/etc/sluice/secrets/crm-token
Environment=SERVICE_SECRETS_PATH=%d
# Sooner than in production.
WatchdogSec=5s
RestartSec=100ms
`,
    );
    system = await bootSystemd(root, folder);
  }, 1_800_000);
  afterAll(async () => {
    await system?.close();
    await llm?.close();
    await upstream?.close();
    await rm(folder, { recursive: true });
  });

  const property = async (name: string) =>
    (await system.exec('systemctl', 'show', `--property=${name}`, '--value', 'sluice')).trim();
  const call = async () =>
    (await modernClient(`http://${mcp}/default/mcp`).call('tools/call', '{"name":"greet"}')).text;

  it('starts when it is ready, and reads secrets that only root can read', async () => {
    expect(await system.exec('systemctl', 'start', 'sluice')).toBe('');
    expect((await fetch(`http://${management}/readyz`)).status).toBe(200);
    await expect.poll(() => upstream.seen.map(({ headers }) => headers.authorization)).toContain('Bearer the-token');
  });

  it('runs actions of evaluators in their sandbox', async () => {
    await expect.poll(call).toContain('"llmResult\\":\\"yes\\"');
    llm.defaultResult = 'takes all memory';
    expect(await call()).toContain('hello');
    llm.defaultResult = 'yes';
    expect(await call()).toContain('llmResult');
    expect(await property('NRestarts')).toBe('0');
  });

  it('is restarted by the watchdog when it hangs, and not before', async () => {
    const first = await property('WatchdogTimestampMonotonic');
    await expect.poll(() => property('WatchdogTimestampMonotonic')).not.toBe(first);
    await system.signalMain('sluice', 'SIGSTOP');
    await expect.poll(() => property('NRestarts')).toBe('1');
    await expect.poll(() => property('ActiveState')).toBe('active');
    await expect.poll(call).toContain('llmResult');
  });

  it('stops in order', async () => {
    expect(await system.exec('systemctl', 'stop', 'sluice')).toBe('');
    expect([await property('Result'), await property('ExecMainStatus')]).toEqual(['success', '0']);
  });
});

function bootstrap(upstream: string, llm: string): object {
  return {
    forwards: [{ name: 'greeter', address: upstream, headers: { authorization: 'Bearer $' + '{file:crm-token}' } }],
    llm_connections: [{ name: 'judge', model: 'm', url: llm }],
    evaluators: [
      {
        name: 'gate',
        trigger: { method: 'tools/call' },
        llm: { operation: 'classify', prompt: 'Safe?', connection: 'judge' },
        processor: { path: 'echo.wasm' },
        on_error: 'continue',
      },
    ],
  };
}
