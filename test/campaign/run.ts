import { readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import type { Campaign } from './campaign.ts';
import { evaluatorsCampaign } from './evaluators.ts';
import { fuzzCampaign } from './fuzz.ts';
import { killCampaign } from './kill.ts';
import { modelCampaign } from './model.ts';
import { parkedCampaign } from './parked.ts';
import { pipelineCampaign } from './pipeline.ts';
import { propertiesCampaign } from './properties.ts';
import { sessionsCampaign } from './sessions.ts';

/**
 * `npm run campaign [-- name …] [-- --rounds N]`: runs the campaigns named, or all of them, and writes what each found
 * to its block in docs/campaign.md. Ends with code 1 when one failed.
 */
const campaigns: readonly Campaign[] = [
  killCampaign,
  sessionsCampaign,
  parkedCampaign,
  modelCampaign,
  fuzzCampaign,
  pipelineCampaign,
  propertiesCampaign,
  evaluatorsCampaign,
];

const REPORT = new URL('../../docs/campaign.md', import.meta.url);
const HEAD = `# Campaigns

Long runs of \`npm run campaign\`, and what each found when it last ran here.
`;

const { values, positionals } = parseArgs({ allowPositionals: true, options: { rounds: { type: 'string' } } });
const unknown = positionals.filter((name) => !campaigns.some((campaign) => campaign.name === name));
const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
if (unknown.length > 0 || (rounds !== undefined && !(Number.isSafeInteger(rounds) && rounds > 0))) {
  console.error(`usage: npm run campaign -- [--rounds N] [${campaigns.map(({ name }) => name).join('] [')}]`);
  process.exit(1);
}

for (const { name, title, run } of campaigns) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  console.log(title);
  const { passed, report } = await run((line) => console.log(line), rounds);
  console.log(`\n${report}`);
  if (!passed) process.exitCode = 1;
  const cores = cpus();
  const where = `Node ${process.versions.node}, ${process.platform}, ${cores.length} × ${cores[0]?.model.trim() || 'CPU'}`;
  await keep(name, `## ${title}\n\n${new Date().toISOString().slice(0, 10)}, ${where}\n\n${report.trim()}`);
}

/** Puts the block in the place of the campaign's former one, or at the end. */
async function keep(name: string, block: string): Promise<void> {
  const before = await readFile(REPORT, 'utf8').catch(() => HEAD);
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [before.indexOf(open), before.indexOf(close)];
  const whole = `${open}\n${block}\n${close}`;
  const after =
    from === -1 || to < from
      ? `${before.trimEnd()}\n\n${whole}\n`
      : `${before.slice(0, from)}${whole}${before.slice(to + close.length)}`;
  await writeFile(REPORT, after);
}
