import { z } from 'zod';

/**
 * The schema behind a folding of input aliases into canonical member names (decisions 2.3 to 2.7). A member given under
 * both names keeps the canonical one. Errors name the canonical member.
 */
export function withAliases<T extends z.ZodType>(aliases: Readonly<Record<string, string>>, schema: T) {
  return z.preprocess((input) => {
    if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
    const folded = new Map<string, unknown>();
    for (const [member, value] of Object.entries(input)) {
      const canonical = Object.hasOwn(aliases, member) ? aliases[member] : undefined;
      if (canonical === undefined) folded.set(member, value);
      else if (!Object.hasOwn(input, canonical)) folded.set(canonical, value);
    }
    return Object.fromEntries(folded);
  }, schema);
}
