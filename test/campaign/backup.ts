import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { restoreBackup } from '@sluice/server/backup';
import { z } from 'zod';
import { recordsIn } from '../../packages/server/testing/records.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import type { Campaign } from './campaign.ts';
import { ballast, startWithTools } from './kill.ts';

const WRITES_PER_SECOND = 200;
const WRITERS = 50;
const FILES = ['registry.json', 'records.snapshot'];

/** Workload of {@link backupUnderLoad}. */
export interface BackupLoad {
  readonly seconds: number;
  /** Tools registered beforehand. */
  readonly tools: number;
}

/** What was measured, and everything that was wrong. */
export interface BackupFigures {
  readonly writes: number;
  readonly writesPerSecond: number;
  /** Latency of writes in milliseconds without and with a backup in progress. */
  readonly without: readonly number[];
  readonly during: readonly number[];
  /** One per backup. */
  readonly backups: readonly { readonly ms: number; readonly bytes: number }[];
  /** Backups with which a service was started. */
  readonly restarted: number;
  readonly failures: readonly string[];
}

/** Names of the writers' tools in `registry.json`. */
const registrySchema = z.object({ tools: z.array(z.object({ name: z.string() })) });

/**
 * Takes backups one after the other while {@link WRITERS} clients register tools in order, {@link WRITES_PER_SECOND} in total.
 * Each backup must contain what was acknowledged before its request, nothing that was sent after it, and no tool without its
 * predecessors. The first, and the last one after all writes, are restored: a service that starts with them writes the same bytes.
 */
export async function backupUnderLoad({ seconds, tools }: BackupLoad): Promise<BackupFigures> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-backups-'));
  const gateway = await startGateway();
  const writers = new PacedWriters(gateway);
  const failures: string[] = [];
  const backups: { ms: number; bytes: number }[] = [];
  const restorable: string[] = [];
  const takeBackup = async (): Promise<void> => {
    const before = writers.acknowledged();
    writers.isMeasured = true;
    const startedAt = performance.now();
    const response = await fetch(`http://${gateway.management()}/api/v1/backup`);
    const bytes = await response.bytes();
    const ms = performance.now() - startedAt;
    writers.isMeasured = false;
    const sent = writers.sent();
    const name = `backup ${backups.length + 1}`;
    const path = join(folder, `${backups.length}.tar.gz`);
    backups.push({ ms, bytes: bytes.length });
    await writeFile(path, bytes);
    const restored = join(folder, String(backups.length));
    try {
      // Verifies all checksums.
      await restoreBackup(path, restored, { warn: () => {}, error: () => {} });
    } catch (error) {
      failures.push(`${name}: ${String(error)}`);
      return;
    }
    const content = registrySchema.parse(JSON.parse(await readFile(join(restored, 'registry.json'), 'utf8')));
    failures.push(...inconsistencies(content.tools, before, sent, tools).map((line) => `${name}: ${line}`));
    if (restorable.length === 0) restorable.push(restored);
    else if (restorable[0] !== restored) restorable[1] = restored;
  };
  try {
    if (tools > 0) await startWithTools(gateway, ballast(tools));
    const stored = await gateway.api('PUT', '/api/v1/evaluators', { evaluators: [] });
    if (stored.status !== 200) throw new Error(`the revision was not stored: ${stored.status}`);
    const startedAt = performance.now();
    const writing = writers.run(seconds);
    while (writers.isRunning) {
      await takeBackup();
      // So that there are writes without a backup, too.
      await Promise.race([writing, delay(500)]);
    }
    await writing;
    const elapsed = (performance.now() - startedAt) / 1000;
    await takeBackup();
    failures.push(...writers.errors);
    for (const restored of restorable) failures.push(...(await restartFailures(restored)));
    // After all writes, the backup is what the service itself leaves behind.
    await gateway.stop();
    failures.push(...(await differences(gateway.folder, restorable.at(-1) ?? '', 'the last backup')));
    const writes = writers.sent().reduce((sum, count) => sum + count, 0);
    const { without, during } = writers;
    return {
      writes,
      writesPerSecond: writes / elapsed,
      without,
      during,
      backups,
      restarted: restorable.length,
      failures,
    };
  } finally {
    await gateway.close();
    await rm(folder, { recursive: true });
  }
}

/** What a backup has that it must not have, or lacks. */
function inconsistencies(
  tools: readonly { readonly name: string }[],
  acknowledged: readonly number[],
  sent: readonly number[],
  ballastTools: number,
): string[] {
  const names = new Set(tools.map(({ name }) => name));
  const found: string[] = [];
  let expected = ballastTools;
  for (const [writer, least] of acknowledged.entries()) {
    let last = 0;
    while (names.has(toolName(writer, last + 1))) last++;
    expected += last;
    if (last < least) found.push(`tool ${least} of writer ${writer} was acknowledged, the last one is ${last}`);
    if (last > (sent[writer] ?? 0)) found.push(`tool ${last} of writer ${writer} was not sent yet`);
  }
  if (names.size !== expected) found.push(`${names.size - expected} tools without their predecessors`);
  return found;
}

/** Starts a service with a restored folder and stops it: the bytes of its files must not change. */
async function restartFailures(restored: string): Promise<string[]> {
  const before = new Map(
    await Promise.all(FILES.map(async (name) => [name, await readFile(join(restored, name))] as const)),
  );
  const service = await startGateway({ env: { SERVICE_PERSIST_PATH: restored } });
  await service.stop();
  await service.close();
  const changed = await Promise.all(
    FILES.map(async (name) =>
      (await readFile(join(restored, name))).equals(before.get(name) ?? Buffer.of()) ? [] : [name],
    ),
  );
  return changed.flat().map((name) => `${name} of ${restored} changed by a start and a stop`);
}

async function differences(folder: string, other: string, name: string): Promise<string[]> {
  const contentOf = async (parent: string, file: string): Promise<string> => {
    const text = await readFile(join(parent, file), 'utf8');
    // The file of a backup begins with another generation of the journal.
    return file === 'records.snapshot' ? JSON.stringify(recordsIn(text).sort()) : text;
  };
  const isSame = async (file: string) => (await contentOf(folder, file)) === (await contentOf(other, file));
  const same = await Promise.all(FILES.map(isSame));
  return FILES.filter((_file, index) => !same[index]).map(
    (file) => `${file} of ${name} differs from that of the service`,
  );
}

function toolName(writer: number, number: number): string {
  return `w${writer}-${number}`;
}

/** Writers that register tools in order, each at its share of the rate as long as responses arrive in time. */
class PacedWriters {
  readonly #gateway: Gateway;
  readonly #acknowledged: number[] = new Array<number>(WRITERS).fill(0);
  readonly #sent: number[] = new Array<number>(WRITERS).fill(0);
  readonly errors: string[] = [];
  readonly without: number[] = [];
  readonly during: number[] = [];
  /** Whether a backup is in progress. */
  isMeasured = false;
  isRunning = false;

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  acknowledged = (): number[] => [...this.#acknowledged];
  sent = (): number[] => [...this.#sent];

  async run(seconds: number): Promise<void> {
    this.isRunning = true;
    const startedAt = performance.now();
    const count = (seconds * WRITES_PER_SECOND) / WRITERS;
    const write = async (writer: number): Promise<void> => {
      for (let number = 1; number <= count; number++) {
        const due = startedAt + ((number - 1 + writer / WRITERS) * 1000 * WRITERS) / WRITES_PER_SECOND;
        const wait = due - performance.now();
        if (wait > 0) await delay(wait);
        await this.#register(writer, number);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
    this.isRunning = false;
  }

  async #register(writer: number, number: number): Promise<void> {
    const body = {
      name: toolName(writer, number),
      description: `Tool ${number} of writer ${writer}`,
      uri: 'http://tool',
      toolType: 'http',
      input_schema: { type: 'object' },
    };
    this.#sent[writer] = number;
    const startedAt = performance.now();
    const isDuring = this.isMeasured;
    const { status } = await this.#gateway.api('POST', '/api/v1/tools', body);
    (isDuring || this.isMeasured ? this.during : this.without).push(performance.now() - startedAt);
    if (status !== 201) this.errors.push(`POST of ${body.name}: ${status}`);
    this.#acknowledged[writer] = number;
  }
}

export const backupCampaign: Campaign = {
  name: 'backup',
  title: `Backups under ${WRITES_PER_SECOND} writes per second`,
  async run(print, rounds = 1) {
    const load = { seconds: 30 * rounds, tools: 10_000 };
    const figures = await backupUnderLoad(load);
    for (const line of figures.failures) print(line);
    const rows: [string, number | string][] = [
      ['tools registered beforehand', load.tools],
      ['writes (POST of tools); per second', `${figures.writes}; ${figures.writesPerSecond.toFixed(0)}`],
      ['backups while writing', figures.backups.length - 1],
      [
        'duration of a backup, median and maximum',
        percentiles(
          figures.backups.map(({ ms }) => ms),
          1,
        ),
      ],
      ['size of the last one', `${((figures.backups.at(-1)?.bytes ?? 0) / 1024).toFixed(0)} KiB`],
      ['latency of a write without a backup, p50, p99 and maximum', percentiles(figures.without, 0.99, 1)],
      ['latency of a write during a backup, p50, p99 and maximum', percentiles(figures.during, 0.99, 1)],
      ['backups restored, each with a service started and stopped', figures.restarted],
      [
        '**acknowledged writes missing, writes without their predecessors, or bytes that differ after a restore**',
        `**${figures.failures.length}**`,
      ],
    ];
    const report = `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}`;
    return { passed: figures.failures.length === 0, report };
  },
};

/** The median and other quantiles in milliseconds. */
function percentiles(values: readonly number[], ...others: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return [0.5, ...others].map((share) => `${at(share).toFixed(0)} ms`).join(', ');
}
