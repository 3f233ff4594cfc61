/** Why an operation on the registry was refused; the management API's codes of the same names (decisions 2.1, 7). */
export type RegistryErrorCode = 'BAD_REQUEST' | 'NOT_FOUND' | 'CONFLICT';

/** What the caller may want to know beyond the message: counts, or the candidates of an ambiguous name. */
export type RegistryErrorDetails = Readonly<Record<string, number | string | readonly string[]>>;

/** A refused operation. It changed nothing, and its message is fit to be answered. */
export class RegistryError extends Error {
  override readonly name = 'RegistryError';
  readonly code: RegistryErrorCode;
  readonly details: RegistryErrorDetails | undefined;

  constructor(code: RegistryErrorCode, message: string, details?: RegistryErrorDetails) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
