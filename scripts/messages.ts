// Collects the messages of the service and of the CLI in docs/messages.md, one section per folder, so that they can be
// read together. `--check` fails when the page is out of date (`npm run check`).
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const PAGE = join(ROOT, 'docs/messages.md');
const SOURCES = [
  'packages/server/src',
  'packages/protocol/src',
  'packages/contract/src',
  'packages/cli/src',
  'packages/actions/src',
];
const SKIPPED = /\.(?:test|fixture)\.ts$|\/(?:fixtures|generated|testing)\//;
/** Calls whose string arguments reach users: errors, log lines, error responses, validation messages. */
const CALL =
  /(?:new \w*(?:Error|Rejection|Problem)|\b(?:log|#log|logger)\.(?:debug|info|warn|error)|\b(?:warn|rpcError|httpProblem|sendError|plainError|problem|fail|reject\w*|invalid\w*|refus\w*|malformed\w*|failure|usageError))\(|\b(?:error|message|problem|reason): (?=['"`])/g;
const INTRODUCTION = `# Messages

Errors and log messages by folder, as they are in the source: \`…\` stands for a value. Written by \`npm run messages\`; \`npm
run check\` fails when it is out of date.
`;

/** The string literals from the start of a call's arguments to its end, values as `…`. */
function literalsFrom(text: string, start: number, isCall: boolean): string[] {
  const found: string[] = [];
  let depth = isCall ? 1 : 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === "'" || char === '"' || char === '`') {
      const [literal, end] = readLiteral(text, at);
      found.push(literal);
      at = end;
      if (!isCall) return found;
    } else if (char === '(' || char === '{' || char === '[') depth++;
    else if (char === ')' || char === '}' || char === ']') {
      if (--depth <= 0) break;
    }
  }
  return found;
}

/** Reads a literal; returns its text and the index of its closing quote. */
function readLiteral(text: string, start: number): [string, number] {
  const quote = text[start];
  let literal = '';
  for (let at = start + 1; at < text.length; at++) {
    const char = text[at];
    if (char === '\\') literal += text[++at] === 'n' ? ' ' : text[at];
    else if (char === quote) return [literal, at];
    else if (quote === '`' && char === '$' && text[at + 1] === '{') {
      at = endOfSubstitution(text, at + 2);
      literal += '…';
    } else literal += char;
  }
  return [literal, text.length];
}

/** Index of the brace that closes a template substitution. */
function endOfSubstitution(text: string, start: number): number {
  let depth = 1;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === '`' || char === "'" || char === '"') [, at] = readLiteral(text, at);
    else if (char === '{') depth++;
    else if (char === '}' && --depth === 0) return at;
  }
  return text.length;
}

/** Messages consist of at least two words. */
const isMessage = (text: string): boolean => /\p{L}\S* \S*\p{L}/u.test(text);

const sections = new Map<string, Set<string>>();
for (const source of SOURCES) {
  const files = await readdir(join(ROOT, source), { recursive: true, withFileTypes: true });
  const paths = files.filter((file) => file.isFile()).map((file) => relative(ROOT, join(file.parentPath, file.name)));
  for (const path of paths.sort()) {
    if (!path.endsWith('.ts') || SKIPPED.test(`/${path}`)) continue;
    const text = await readFile(join(ROOT, path), 'utf8');
    const [top = ''] = path.slice(source.length + 1).split('/');
    const section = top.endsWith('.ts') ? source : `${source}/${top}`;
    const messages = sections.get(section) ?? new Set<string>();
    for (const call of text.matchAll(CALL)) {
      for (const literal of literalsFrom(text, call.index + call[0].length, call[0].endsWith('('))) {
        if (isMessage(literal)) messages.add(literal.trim());
      }
    }
    if (messages.size > 0) sections.set(section, messages);
  }
}
const page = [...sections]
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(
    ([section, messages]) =>
      `\n## ${section}\n\n${[...messages]
        .sort()
        .map((line) => `    ${line}`)
        .join('\n')}\n`,
  )
  .join('');
const content = `${INTRODUCTION}${page}`;
if (!process.argv.includes('--check')) await writeFile(PAGE, content);
else if ((await readFile(PAGE, 'utf8').catch(() => '')) !== content) {
  console.error(`${relative(ROOT, PAGE)} is out of date: run npm run messages`);
  process.exitCode = 1;
}
