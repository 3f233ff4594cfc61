/** Returns whether the version of the host API satisfies a semver range: `1.0`, `^1.0`, `~1.0`, `>=1.0 <2`, `1.x`, `*`. */
export function satisfies(version: string, range: string): boolean {
  return range.split('||').some((part) => {
    const comparators = part.trim().split(/\s+/);
    return comparators.every((comparator) => matchesComparator(version, comparator));
  });
}

function matchesComparator(version: string, comparator: string): boolean {
  const [, operator = '', text = ''] = /^(\^|~|>=|<=|>|<|=)?(.*)$/.exec(comparator) ?? [];
  const wanted = numbers(text);
  if (wanted === undefined) return false;
  if (wanted.length === 0) return true;
  const order = compare(numbers(version) ?? [], wanted);
  switch (operator) {
    case '>=':
      return order >= 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '<':
      return order < 0;
    case '^':
      return order >= 0 && numbers(version)?.[0] === wanted[0];
    case '~':
      return order >= 0 && compare((numbers(version) ?? []).slice(0, 2), wanted.slice(0, 2)) === 0;
    default:
      // `1` and `1.x` are all versions that begin with it.
      return compare((numbers(version) ?? []).slice(0, wanted.length), wanted) === 0;
  }
}

/** The numbers before a wildcard; undefined unless the text is a version. */
function numbers(text: string): number[] | undefined {
  if (!/^(?:\d+|[xX*])(?:\.(?:\d+|[xX*])){0,2}$/.test(text)) return text === '' ? [] : undefined;
  const parts = text.split('.');
  const wildcard = parts.findIndex((part) => /[xX*]/.test(part));
  return parts.slice(0, wildcard === -1 ? undefined : wildcard).map(Number);
}

function compare(one: readonly number[], other: readonly number[]): number {
  for (let at = 0; at < 3; at++) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
