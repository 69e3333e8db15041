"""Shortest ways along the streets of a town, from one corner to the opposite one."""


def ways(rows, columns):
    line = [1] * (columns + 1)
    for row in range(1, rows):
        for column in range(1, columns + 1):
            line[column] += line[column - 1]
    return line[columns]


print(ways(9, 7))
