/** One line of Prometheus' text format that has a value. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$/i;
const LABEL = /([a-z_][a-z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)/giy;

/** Parses Prometheus' text format (0.0.4); throws at a line that is neither a comment nor a sample. */
export function samplesOf(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('# '))
    .map((line) => {
      const [, name, labels = '', value] = LINE.exec(line) ?? [];
      if (name === undefined || value === undefined) throw new Error(`not a sample: ${line}`);
      return {
        name,
        labels: labelsOf(labels, line),
        value: value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value),
      };
    });
}

/** The value of the single sample of this name with these labels among others; undefined if there is none. */
export function sampleOf(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = samples.filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  if (found.length > 1) throw new Error(`several samples of ${name} have the labels ${JSON.stringify(labels)}`);
  return found[0]?.value;
}

/** The histograms by name and labels; throws if buckets decrease or the last one differs from the count. */
export function histogramsOf(samples: readonly Sample[]): ReadonlyMap<string, number> {
  const buckets = new Map<string, Bucket[]>();
  for (const { name, labels, value } of samples) {
    const { le, ...others } = labels;
    if (le === undefined) continue;
    const key = `${name.replace(/_bucket$/, '')}${JSON.stringify(others)}`;
    const known = buckets.get(key) ?? [];
    buckets.set(key, known);
    known.push({ bound: le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le), value });
  }
  const counts = new Map<string, number>();
  for (const { name, labels, value } of samples) {
    const key = `${name.replace(/_count$/, '')}${JSON.stringify(labels)}`;
    if (name.endsWith('_count')) counts.set(key, value);
  }
  for (const [key, own] of buckets) {
    const inOrder = own.every(({ bound, value }, at) => at === 0 || isIncreasing(own[at - 1], { bound, value }));
    const last = own.at(-1);
    if (!inOrder || last?.bound !== Number.POSITIVE_INFINITY || last.value !== counts.get(key)) {
      throw new Error(`buckets that do not add up to ${counts.get(key)}: ${key} ${JSON.stringify(own)}`);
    }
  }
  if (buckets.size !== counts.size) throw new Error(`${counts.size} histograms, ${buckets.size} with buckets`);
  return counts;
}

interface Bucket {
  readonly bound: number;
  readonly value: number;
}

function isIncreasing(before: Bucket | undefined, { bound, value }: Bucket): boolean {
  return before !== undefined && before.bound < bound && before.value <= value;
}

function labelsOf(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  let end = 0;
  for (const [whole, name = '', value = ''] of text.matchAll(LABEL)) {
    if (name in labels) throw new Error(`duplicate label: ${line}`);
    labels[name] = value.replaceAll(/\\(.)/g, (_all, escaped) => (escaped === 'n' ? '\n' : escaped));
    end += whole.length;
  }
  if (end !== text.length) throw new Error(`labels that cannot be read: ${line}`);
  return labels;
}
