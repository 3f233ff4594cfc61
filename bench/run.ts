// npm run bench: measures the gateway against nginx and against calling directly, all in one run. See README.md here.
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { cases } from './cases.ts';
import { type Fixture, startFixture } from './fixture.ts';
import { type Gateway, startGateway } from './gateway.ts';
import { type Contender, measureCases } from './measure.ts';
import type { Era } from './messages.ts';
import { startNginx } from './nginx.ts';
import { type Options, parseOptions, usage } from './options.ts';
import { findPrograms } from './packages.ts';
import { type Profile, profileCase } from './profile.ts';
import { profileText, report, writeBlock } from './report.ts';
import { measureSize } from './size.ts';

const readme = `${import.meta.dirname}/README.md`;
const say = (line: string) => console.error(line);

/** Runs what the options ask for; resolves to the exit code: 1 when a floor was missed. */
async function bench(options: Options, folder: string, owned: AsyncDisposableStack): Promise<number> {
  const programs = findPrograms(say);
  const loadBefore = loadavg()[0] ?? 0;
  if (loadBefore > 0.5) say(`the machine is busy (load ${loadBefore.toFixed(1)}): the figures will be rough`);
  const gatewayStart = {
    ...options,
    registryFolder: `${folder}/registry`,
    outputFile: `${folder}/gateway.log`,
  };
  const startUpstreams = async () => ({
    legacy: owned.use(await startFixture(folder, 'legacy', 20, 20)),
    modern: owned.use(await startFixture(folder, 'modern', 20, 20)),
  });

  if (options.profile.length > 0) {
    if (!programs.wrk) return 1;
    const upstreams = await startUpstreams();
    const profiles: Profile[] = [];
    for (const measured of cases.filter(({ name }) => options.profile.includes(name))) {
      const start = { ...gatewayStart, registryFolder: `${folder}/registry-${measured.name}` };
      const connect = (gateway: Gateway) => connectUpstreams(gateway, upstreams);
      profiles.push(await profileCase(measured, start, connect, options.plan, options.quick ? 3 : 6, folder));
    }
    const text = profileText(profiles);
    console.log(text);
    if (options.write) writeBlock(readme, 'profile', text);
    return 0;
  }

  const upstreams = await startUpstreams();
  const contenders: Contender[] = [];
  if (options.parts.has('list') || options.parts.has('call')) {
    if (programs.nginx) {
      const addresses = { legacy: upstreams.legacy.endpoint(), modern: upstreams.modern.endpoint() };
      const nginx = owned.use(await startNginx(`${folder}/nginx`, addresses));
      contenders.push({ name: 'nginx', pid: nginx.workerPid, child: undefined, endpoint: nginx.endpoint });
    }
    const gateway = owned.use(await startGateway(gatewayStart));
    await connectUpstreams(gateway, upstreams);
    contenders.push({ name: 'gateway', pid: gateway.child.pid, child: gateway.child, endpoint: gateway.endpoint });
    const direct = (era: Era) => upstreams[era].endpoint();
    contenders.push({ name: 'direct', pid: undefined, child: undefined, endpoint: direct });
  }
  const figures = await measureCases(options.parts, contenders, options.plan, folder, programs.wrk, say);
  for (const { child } of contenders) await child?.stop();
  const size = options.parts.has('size') ? await measureSize(options, folder, programs.wrk, say) : undefined;
  const { text, missed } = report(figures, size, options, loadBefore);
  console.log(text);
  for (const line of missed) console.log(`\nMISSED ${line}`);
  if (options.write) writeBlock(readme, 'figures', text);
  return missed.length > 0 ? 1 : 0;
}

/** Gives the gateway one namespace per era, each with an upstream that speaks only that era. */
async function connectUpstreams(gateway: Gateway, upstreams: Readonly<Record<Era, Fixture>>): Promise<void> {
  for (const era of ['legacy', 'modern'] as const) {
    await gateway.addForward(`bench-${era}`, upstreams[era].endpoint(), era, 20);
  }
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), join(import.meta.dirname, '..'));
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  if (process.platform !== 'linux') throw new Error('the bench reads CPU time from /proc and runs on Linux only');
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void owned.disposeAsync().finally(() => process.exit(130)));
  }
  return await bench(options, folder, owned);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
