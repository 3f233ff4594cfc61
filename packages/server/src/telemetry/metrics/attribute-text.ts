/** As long as names may be (decisions 8). */
const LONGEST = 256;

/** A name that others have chosen, as long as an attribute may be; most are returned as they came. */
export function cutName(name: string): string {
  return name.length > LONGEST ? name.slice(0, LONGEST) : name;
}

/**
 * The name as an attribute that is kept: well-formed text of its own. What comes from a parser may be a piece of the text
 * that it was parsed from, and would keep all of that alive.
 */
export function attributeText(name: string): string {
  return Buffer.from(cutName(name)).toString();
}
