// Finds names and texts that the project has replaced (scripts/wording.json), so that they do not come back. Part of
// `npm run check`; exits with 1 and one line per finding.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import replaced from './wording.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '..');
const OWN = /^scripts\/wording\.|^docs\/(?:campaign|conformance)\.md$|^bench\/README\.md$|\/generated\//;
const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: ROOT, encoding: 'utf8' });
const paths = [...new Set(listed.split('\0'))].filter(
  (path) => /\.(?:ts|mjs|md|yaml)$/.test(path) && !OWN.test(path) && existsSync(join(ROOT, path)),
);

const escaped = (text: string): string => text.replace(/[$#.*+?^{}()|[\]\\]/g, '\\$&');
const anyOf = (names: readonly string[]): string => names.map(escaped).join('|');
const anywhere = new RegExp(`\\b(?:${anyOf(replaced.anywhere)})\\b`);
const declarationOf = (exported: string): RegExp =>
  new RegExp(
    `^\\s*${exported}(?:abstract |async )*(?:class|interface|type|function\\*?|const|let) (?:${anyOf(replaced.declarations)})\\b`,
  );
const declaration = declarationOf('(?:export )?');
const exportedDeclaration = declarationOf('export ');
const TEST = /^(?:test|bench)\/|\.(?:test|fixture)\.ts$|\/(?:fixtures|testing)\//;
const texts = new RegExp(anyOf(replaced.texts));
const members = new Map(
  Object.entries(replaced.members).map(([path, names]) => [
    path,
    new RegExp(`^\\s*(?:(?:export|readonly|async|get|function|static) )*(?:${anyOf(names)})[?]?[(:<]`),
  ]),
);

const findings: string[] = [];
for (const path of paths) {
  const parts = path.split('/');
  const folder = parts.slice(0, -1).find((name) => replaced.files.includes(name));
  if (folder !== undefined || replaced.files.includes(basename(path))) findings.push(`${path}: replaced file name`);
  readFileSync(join(ROOT, path), 'utf8')
    .split('\n')
    .forEach((line, at) => {
      const isSource = /\.(?:ts|mjs)$/.test(path);
      const found =
        texts.exec(line) ??
        (isSource
          ? (anywhere.exec(line) ??
            (TEST.test(path) ? exportedDeclaration : declaration).exec(line) ??
            members.get(path)?.exec(line))
          : null);
      if (found) findings.push(`${path}:${at + 1}: replaced wording: ${found[0].trim()}`);
    });
}
for (const finding of findings) console.error(finding);
if (findings.length > 0) process.exitCode = 1;
