/**
 * A setting that start-up cannot go on with (decisions 1.1). The message is one line that names the variable, flag or
 * file (with line and key), what is wrong with it and what is accepted; it never carries a secret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
