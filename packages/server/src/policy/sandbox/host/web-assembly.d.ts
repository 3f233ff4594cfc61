/** What is used here of WebAssembly's JavaScript interface, which the types of Node.js do not declare. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Memory {
    constructor(size: { readonly initial: number; readonly maximum: number; readonly shared: boolean });
    readonly buffer: { readonly byteLength: number };
  }
  class Instance {
    constructor(module: Module, imports: object);
    readonly exports: object;
  }
  function validate(bytes: Uint8Array): boolean;
}
