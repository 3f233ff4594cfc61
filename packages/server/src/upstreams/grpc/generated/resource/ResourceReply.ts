// Original file: proto/resource.proto


export interface ResourceReply {
  'isError'?: (boolean);
  /**
   * Each becomes a text of the resource's contents.
   */
  'content'?: (string)[];
}

export interface ResourceReply__Output {
  'isError': (boolean);
  /**
   * Each becomes a text of the resource's contents.
   */
  'content': (string)[];
}
