//! Statements as trees of text, so that parts of them can be left out.

/// A part of a statement.
#[derive(Clone, Debug)]
pub struct Tree {
    parts: Vec<Part>,
    /// True if the statement stays one without it.
    optional: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Child(Tree),
}

impl Tree {
    /// A text.
    pub fn leaf(text: impl Into<String>) -> Tree {
        Tree { parts: vec![Part::Text(text.into())], optional: false }
    }

    /// A text in which each `#` stands for the next child.
    pub fn node(pattern: &str, children: impl IntoIterator<Item = Tree>) -> Tree {
        let mut children = children.into_iter();
        let mut parts = Vec::new();
        for (place, text) in pattern.split('#').enumerate() {
            if place > 0 {
                parts.extend(children.next().map(Part::Child));
            }
            parts.push(Part::Text(text.to_owned()));
        }
        Tree { parts, optional: false }
    }

    /// Parts with a separator between any two.
    pub fn list(children: Vec<Tree>, separator: &str) -> Tree {
        let mut parts = Vec::new();
        for (place, child) in children.into_iter().enumerate() {
            let before = if place > 0 { separator } else { "" };
            let text = vec![Part::Text(before.to_owned()), Part::Child(child)];
            parts.push(Part::Child(Tree { parts: text, optional: place > 0 }));
        }
        Tree { parts, optional: false }
    }

    /// The same, but the statement stays one without it.
    pub fn optional(self) -> Tree {
        Tree { optional: true, ..self }
    }

    /// Returns its text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Child(child) => child.write(out),
            }
        }
    }

    /// Every tree in which one part is left out or replaced by a part of its own.
    pub fn smaller(&self) -> Vec<Tree> {
        let mut smaller = Vec::new();
        for (place, part) in self.parts.iter().enumerate() {
            let Part::Child(child) = part else { continue };
            let with = |replaced: Tree| {
                let mut tree = self.clone();
                tree.parts[place] = Part::Child(replaced);
                tree
            };
            if child.optional && !child.text().is_empty() {
                smaller.push(with(Tree::leaf("").optional()));
            }
            for grandchild in &child.parts {
                if let Part::Child(grandchild) = grandchild
                    && !grandchild.text().is_empty()
                    && grandchild.text() != child.text()
                {
                    smaller.push(with(grandchild.clone()));
                }
            }
            smaller.extend(child.smaller().into_iter().map(with));
        }
        smaller
    }
}
