import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { quickjsComponent } from '../../packages/server/src/policy/sandbox/fixtures/quickjs-component.ts';
import { startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import {
  type Container,
  type ContainerOptions,
  type StartingContainer,
  startContainer,
} from '../fixtures/container.ts';
import { type Image, ImageBuilder } from '../fixtures/container-image.ts';
import { imagePrograms } from '../fixtures/deploy-programs.ts';
import { echoJavascript } from '../fixtures/evaluated/echo-javascript.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const MAX_COMPRESSED_BYTES = 85e6;
const MAX_BYTES = 250e6;

const isPossible = imagePrograms.find() !== undefined && process.getuid?.() === 0;
if (!isPossible)
  console.error('skipped: the container image; run as root with the Debian packages buildah and mmdebstrap');

describe.runIf(isPossible)('the container image', () => {
  let folder: string;
  let builder: ImageBuilder;
  let image: Image;
  let upstream: RawUpstream;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-container-'));
    await run(process.execPath, ['scripts/pack.ts', join(folder, 'dist')], { cwd: ROOT });
    builder = await ImageBuilder.create(folder, join(folder, 'dist'));
    image = await builder.build('full');
    upstream = await startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('greet')), 'tools/call': () => textResultText('hello') },
    });
  }, 1_800_000);
  afterAll(async () => {
    await upstream?.close();
    await builder?.close();
    await rm(folder, { recursive: true });
  });

  /** Starts the image, with an empty volume unless given, until the test ends. */
  const launch = async (options: Partial<ContainerOptions> = {}, of = image): Promise<StartingContainer> => {
    const own = await mkdtemp(join(folder, 'run-'));
    // Readable by the user of the image.
    await chmod(own, 0o755);
    const starting = await startContainer(of, { volume: join(own, 'volume'), configuration: own, ...options });
    onTestFinished(async () => {
      await starting.terminate();
      await starting.exited;
    });
    return starting;
  };
  const start = async (...options: Parameters<typeof launch>) => (await launch(...options)).started;
  const get = (container: Container, path: string) => fetch(`http://${container.addresses.management}${path}`);
  const call = async (container: Container) =>
    (await modernClient(`http://${container.addresses.mcp}/default/mcp`).call('tools/call', '{"name":"greet"}')).text;

  it('is labeled, and runs as a user of its own with a fixed id', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
    expect(image.config).toMatchObject({
      User: '10001:10001',
      WorkingDir: '/etc/service',
      Volumes: { '/data/registry': {} },
      StopSignal: 'SIGTERM',
      ExposedPorts: { '8080/tcp': {}, '8081/tcp': {}, '8083/tcp': {} },
      Healthcheck: { Test: ['CMD', 'sluice', 'health'] },
      Labels: {
        'org.opencontainers.image.title': 'Sluice',
        'org.opencontainers.image.licenses': 'Apache-2.0',
        'org.opencontainers.image.version': version,
      },
    });
  });

  it('has no shell and no compiler of components, and is small', async () => {
    const { stdout } = await run('find', [image.root, '-printf', '%P\n'], { maxBuffer: 2 ** 28 });
    const programs = stdout.split('\n').filter((path) => /^(?:usr\/)?(?:local\/)?s?bin\/./.test(path));
    expect(programs.sort()).toEqual(['usr/local/bin/node', 'usr/local/bin/sluice']);
    expect(stdout).not.toMatch(/\/(?:componentize-qjs|rolldown|binaryen)$/m);
    const { stdout: size } = await run('du', ['-sb', image.root]);
    console.log(`image: ${image.compressedBytes} bytes compressed, ${Number.parseInt(size, 10)} unpacked`);
    expect(image.compressedBytes).toBeLessThan(MAX_COMPRESSED_BYTES);
    expect(Number.parseInt(size, 10)).toBeLessThan(MAX_BYTES);
  });

  it('serves tools and the console read-only, keeps its registry in its volume, and stops on SIGTERM', async () => {
    const volume = join(folder, 'volume');
    const first = await start({ volume });
    await first.exec('sluice', 'forwards', 'add', '--name', 'greeter', '--url', upstream.url);
    expect(await call(first)).toContain('hello');
    const console = await get(first, '/admin/');
    expect([console.status, await console.text()]).toEqual([200, expect.stringContaining('<title>Sluice')]);
    await first.exec('sluice', 'health');
    expect(await first.stop()).toBe(0);
    const second = await start({ volume });
    await expect.poll(() => call(second)).toContain('hello');
    expect(await second.stop()).toBe(0);
  });

  it('runs actions of evaluators without a shell', async () => {
    const llm = await startChatCompletions();
    onTestFinished(() => llm.close());
    const configuration = await mkdtemp(join(folder, 'configuration-'));
    await writeFile(join(configuration, 'echo.wasm'), await quickjsComponent(echoJavascript, 'small'));
    const bootstrap = {
      forwards: [{ name: 'greeter', address: upstream.url }],
      llm_connections: [{ name: 'judge', model: 'm', url: llm.url }],
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
    await writeFile(join(configuration, 'service.yaml'), JSON.stringify(bootstrap));
    await run('chmod', ['-R', 'a+rX', configuration]);
    const container = await start({ configuration });
    await expect.poll(() => call(container)).toContain('"llmResult\\":\\"yes\\"');
  });

  it('stops on SIGTERM while it starts', async () => {
    const starting = await launch();
    const timer = setInterval(() => void starting.terminate(), 5);
    expect(await starting.exited.finally(() => clearInterval(timer))).toBe(143);
  });

  it('has a headless variant without the console', async () => {
    const headless = await builder.build('headless');
    expect(existsSync(join(headless.root, 'opt/service/admin'))).toBe(false);
    const container = await start({}, headless);
    for (const path of ['/', '/admin/', '/plugins/x', '/api/plugins/x']) {
      expect((await get(container, path)).status, path).toBe(404);
    }
    expect(await (await get(container, '/api/v1/plugins')).json()).toMatchObject({ data: [] });
    expect((await get(container, '/openapi.json')).status).toBe(200);
  }, 1_200_000);
});
