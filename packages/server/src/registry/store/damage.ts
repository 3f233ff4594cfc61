/** A file's content is not what it should be. `file` is its name inside the folder. */
export class Damage extends Error {
  override readonly name = 'Damage';
  readonly file: string;

  constructor(file: string, what: string, options?: ErrorOptions) {
    super(what, options);
    this.file = file;
  }
}
