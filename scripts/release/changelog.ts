/** A section of the change log. */
export interface ReleaseNotes {
  /** `YYYY-MM-DD`; undefined for changes that are not released yet. */
  readonly date: string | undefined;
  /** Markdown without the heading. */
  readonly text: string;
}

/**
 * Returns the section of a version, or else that of the unreleased changes. Throws if there is neither, or if it is empty.
 */
export function releaseNotes(changelog: string, version: string): ReleaseNotes {
  const sections = [...changelog.matchAll(/^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?\n(.*?)(?=^## |(?!.))/gms)];
  const named = (name: string) => sections.find(([, title]) => title === name);
  const section = named(version) ?? named('Unreleased');
  if (!section) throw new Error(`CHANGELOG.md has no section "[${version}]" or "[Unreleased]"`);
  const [, title, date, body = ''] = section;
  const text = body.trim();
  if (text === '') throw new Error(`section "[${title}]" of CHANGELOG.md is empty`);
  if (title === version && date === undefined) throw new Error(`section "[${version}]" of CHANGELOG.md has no date`);
  return { date: title === version ? date : undefined, text: `${text}\n` };
}

/** Returns the tags of the images: those of a release also for its minor and major version. */
export function imageTags(version: string): string[] {
  const [, major, minor, rest] = /^(\d+)\.(\d+)\.\d+(-.+)?$/.exec(version) ?? [];
  if (major === undefined) throw new Error(`invalid version ${version}: expected MAJOR.MINOR.PATCH`);
  // 0.x may change incompatibly with each minor version.
  const tags = rest ? [version] : [version, `${major}.${minor}`, ...(major === '0' ? [] : [major]), 'latest'];
  const headless = tags.map((tag) => (tag === 'latest' ? 'headless' : `${tag}-headless`));
  return [...tags, ...headless].map((tag) => `sluice:${tag}`);
}
