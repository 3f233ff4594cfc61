/** As long as names may be (decisions 8). */
const LONGEST = 256;

/**
 * A name that others have chosen, as long as an attribute may be; most are returned as they came. No character is cut in
 * two.
 */
export function cutName(name: string): string {
  if (name.length <= LONGEST) return name;
  const beyond = (name.codePointAt(LONGEST - 1) ?? 0) > 0xffff;
  return name.slice(0, beyond ? LONGEST - 1 : LONGEST);
}

/**
 * The name as an attribute that is kept: well-formed text of its own. What comes from a parser may be a piece of the text
 * that it was parsed from, and would keep all of that alive.
 */
export function attributeText(name: string): string {
  return Buffer.from(cutName(name)).toString();
}
