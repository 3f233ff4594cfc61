/** Why a file cannot be an action; the message is fit to be answered and names no path but what was submitted. */
export class ActionFileError extends Error {
  override readonly name = 'ActionFileError';
}
