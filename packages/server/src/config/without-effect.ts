/**
 * Settings that are known and checked, but that no part of this version acts on: environment variables, flags, and
 * top-level keys of the service-config file. Whoever adds the part that acts on one deletes its line here.
 */
const WITHOUT_EFFECT: readonly string[] = ['SERVICE_UI_PATH', '--plugins-path', 'plugins'];

/** One warning for each of the settings given that changes nothing, so that nobody relies on it. */
export function warnOfNoEffect(settings: readonly string[]): string[] {
  return settings
    .filter((setting) => WITHOUT_EFFECT.includes(setting))
    .map((setting) => `${setting} has no effect in this version`);
}
